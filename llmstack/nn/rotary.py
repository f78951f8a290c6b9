"""Rotary position embedding with explicit positions, in the rotate-half layout of Hugging Face's Llama."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn, ops


class RotaryEmbedding(nn.Cell):
    """Cosines and sines of position x frequency, f_i = theta^(-2i/E) (Su et al. 2021, equation 15).

    The angles are taken in float64 when the Cell is built and looked up by position, so that a far position loses
    no digits. The sines of the first half carry the minus sign of the rotation; :class:`Rotate` counts on it.

    Args:
        head_dim: head width E, even.
        max_positions: positions 0 .. max_positions - 1 can be looked up.
        theta: base of the frequencies.
    """

    def __init__(self, head_dim: int, max_positions: int, theta: float) -> None:
        super().__init__()
        frequencies = float(theta) ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
        angles = np.arange(max_positions, dtype=np.float64)[:, None] * frequencies
        cos, sin = np.cos(angles), np.sin(angles)
        self.cos_table = Tensor(np.concatenate([cos, cos], axis=1).astype(np.float32))
        self.sin_table = Tensor(np.concatenate([-sin, sin], axis=1).astype(np.float32))

    def construct(self, positions_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Look the angles up.

        Args:
            positions_BT: (B, T) int32, place of each token in its document, from 0.

        Returns:
            ``(cos_B1TE, sin_B1TE)``: (B, 1, T, E) float32 each, to be used by every layer and head.
        """
        positions_B1T = ops.expand_dims(positions_BT, 1)
        return ops.gather(self.cos_table, positions_B1T, 0), ops.gather(self.sin_table, positions_B1T, 0)


class Rotate(nn.Cell):
    """Turn each pair (x_i, x_{i+E/2}) by its angle: x * cos + swap_halves(x) * signed_sin.

    The dot product of a query and a key turned so depends on their positions only by the difference
    (Su et al. 2021, section 3.2).
    """

    def __init__(self) -> None:
        super().__init__()
        self.halves = ops.Split(-1, 2)
        self.join = ops.Concat(-1)

    def construct(self, heads_BHTE: Tensor, cos_B1TE: Tensor, sin_B1TE: Tensor) -> Tensor:
        """Turn every head.

        Args:
            heads_BHTE: (B, heads, T, E) float32, queries or keys.
            cos_B1TE: (B, 1, T, E) float32 from :class:`RotaryEmbedding`.
            sin_B1TE: (B, 1, T, E) float32, first half negated.

        Returns:
            (B, heads, T, E) float32.
        """
        first, second = self.halves(heads_BHTE)
        return heads_BHTE * cos_B1TE + self.join((second, first)) * sin_B1TE
