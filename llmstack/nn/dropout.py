"""Dropout whose noise is a function of a seed, so that a resumed or repeated step drops the same numbers."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def dropout_seed() -> Parameter:
    """The seed that a model's dropouts share: 0 switches them off, which is how everything but training runs."""
    return Parameter(Tensor(0, ms.int32), name="dropout_seed", requires_grad=False)


class SeededDropout(nn.Cell):
    """Zeroes a share of the numbers and scales the others so that the mean stays (Srivastava et al. 2014, section 10).

    A number is kept by a hash of its place, the seed and the salt: the finaliser of MurmurHash3, whose 32 bits each
    depend on all bits of its input.

    Args:
        rate: share of numbers that are zeroed.
        salt: tells the dropouts of one model apart.
        seed: int32 (), from :func:`dropout_seed`.
    """

    def __init__(self, rate: float, salt: int, seed: Parameter) -> None:
        # the seed belongs to the model, and keeps the name it has there
        super().__init__(auto_prefix=False)
        self.seed = seed
        self.salt = int(np.uint32(salt).view(np.int32))
        self.threshold = int(round(rate * 2**31))
        self.kept_scale = 1.0 / (1.0 - rate)
        self.xor, self.both, self.shift = ops.BitwiseXor(), ops.BitwiseAnd(), ops.RightShift()
        # (bits, the ones a logical shift leaves, odd multiplier)
        steps = ((16, 0xFFFF, 0x85EBCA6B), (13, 0x7FFFF, 0xC2B2AE35), (16, 0xFFFF, 1))
        self.steps = [tuple(Tensor(np.uint32(number).view(np.int32)) for number in step) for step in steps]

    def construct(self, rows_NI: Tensor) -> Tensor:
        """Drop.

        Args:
            rows_NI: (N, I) float32.

        Returns:
            (N, I) float32; the input itself while the seed is 0.
        """
        width = rows_NI.shape[1]
        place = ops.expand_dims(ops.arange(rows_NI.shape[0]) * width, 1) + ops.expand_dims(ops.arange(width), 0)
        bits = self._mixed(self.xor(self._mixed(ops.cast(place, ms.int32)), self._mixed(self.seed + self.salt)))
        off = ops.equal(self.seed, 0)
        kept = ops.logical_or(ops.greater_equal(self.both(bits, 0x7FFFFFFF), self.threshold), off)
        scale = ops.select(off, Tensor(1.0, ms.float32), Tensor(self.kept_scale, ms.float32))
        return rows_NI * (ops.cast(kept, ms.float32) * scale)

    def _mixed(self, bits: Tensor) -> Tensor:
        for shift, ones, multiplier in self.steps:
            bits = self.xor(bits, self.both(self.shift(bits, shift), ones)) * multiplier
        return bits
