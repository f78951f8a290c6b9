"""Angles of the rotary position embedding, looked up by explicit positions."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn, ops


class RotaryEmbedding(nn.Cell):
    """Cosines and sines of position x frequency, f_i = theta^(-2i/E) (Su et al. 2021, equation 15).

    The angles are taken in float64 when the Cell is built and looked up by position, so a far position loses no digits.

    Args:
        head_dim: head width E, even.
        max_positions: positions 0 .. max_positions - 1 can be looked up.
        theta: base of the frequencies.
    """

    def __init__(self, head_dim: int, max_positions: int, theta: float) -> None:
        super().__init__()
        frequencies = float(theta) ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
        angles = np.arange(max_positions, dtype=np.float64)[:, None] * frequencies
        self.cos_table = Tensor(np.cos(angles).astype(np.float32))
        self.sin_table = Tensor(np.sin(angles).astype(np.float32))

    def construct(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Look the angles up, once a forward pass.

        Args:
            positions: (B, T) or (N,) int32, place of each token in its document, from 0.

        Returns:
            ``(cos, sin)``: (B*T, E/2) float32 each, for every layer and head.
        """
        flat_N = ops.reshape(positions, (-1,))
        return ops.gather(self.cos_table, flat_N, 0), ops.gather(self.sin_table, flat_N, 0)
