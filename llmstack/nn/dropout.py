"""Dropout whose noise is a function of a seed, so that a resumed or repeated step drops the same numbers."""

from __future__ import annotations

import zlib

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


class SeededDropout(nn.Cell):
    """Zeroes a share of the numbers and scales the others so that the mean stays (Srivastava et al. 2014, section 10).

    A number is kept by a hash of its place and the seed: the finaliser of MurmurHash3, whose 32 bits each depend on all
    bits of its input.

    Attributes:
        seed: int32 () Parameter; 0 switches the dropout off, which is how everything but training runs.

    Args:
        rate: share of numbers that are zeroed.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.seed = Parameter(Tensor(0, ms.int32), name="seed", requires_grad=False)
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
        bits = self._mixed(self.xor(self._mixed(ops.cast(place, ms.int32)), self._mixed(self.seed)))
        off = ops.equal(self.seed, 0)
        kept = ops.logical_or(ops.greater_equal(self.both(bits, 0x7FFFFFFF), self.threshold), off)
        scale = ops.select(off, Tensor(1.0, ms.float32), Tensor(self.kept_scale, ms.float32))
        return rows_NI * (ops.cast(kept, ms.float32) * scale)

    def _mixed(self, bits: Tensor) -> Tensor:
        for shift, ones, multiplier in self.steps:
            bits = self.xor(bits, self.both(self.shift(bits, shift), ones)) * multiplier
        return bits


def seed_dropouts(model: nn.Cell, noise: int) -> None:
    """Give every dropout of a model a seed of its own.

    Args:
        model: any Cell.
        noise: decides them all; 0 switches the dropouts off.
    """
    for name, cell in model.cells_and_names():
        if isinstance(cell, SeededDropout):
            own = np.random.default_rng((noise, zlib.crc32(name.encode()))).integers(1, 2**31) if noise else 0
            cell.seed.set_data(Tensor(int(own), ms.int32))
