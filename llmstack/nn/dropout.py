"""Dropout whose noise is a function of a seed, so that a resumed or repeated step drops the same numbers."""

from __future__ import annotations

import zlib

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn

from llmstack.nn import kernels


class SeededDropout(nn.Cell):
    """Zeroes a share of the numbers and scales the others so that the mean stays (Srivastava et al. 2014, section 10).

    A number is kept by a hash of its place and the seed, whose 32 bits each depend on all bits of both.

    Attributes:
        seed: int32 () Parameter; 0 switches the dropout off, which is how everything but training runs.

    Args:
        rate: share of numbers that are zeroed.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.seed = Parameter(Tensor(0, ms.int32), name="seed", requires_grad=False)
        self.kernel = kernels.dropout(rate)

    def construct(self, rows_NI: Tensor) -> Tensor:
        """Drop.

        Args:
            rows_NI: (N, I) float32.

        Returns:
            (N, I) float32; the input itself while the seed is 0.
        """
        return self.kernel(rows_NI, self.seed)


class DropoutSeeds:
    """The seeds of all dropouts of a model.

    Args:
        model: any Cell; dropouts it gets later are not known here.
    """

    def __init__(self, model: nn.Cell) -> None:
        self._seeds = [
            (zlib.crc32(name.encode()), cell.seed)
            for name, cell in model.cells_and_names()
            if isinstance(cell, SeededDropout)
        ]

    def draw(self, *noise: int) -> None:
        """Give each dropout a seed of its own.

        Args:
            noise: non-negative, decides them all.
        """
        for own, seed in self._seeds:
            seed.set_data(Tensor(int(np.random.default_rng((*noise, own)).integers(1, 2**31)), ms.int32))

    def off(self) -> None:
        """Let everything through."""
        for _, seed in self._seeds:
            seed.set_data(Tensor(0, ms.int32))
