"""Angles of the rotary position embedding, looked up by explicit positions."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.config.model import RopeScaling
from llmstack.nn.rope_scaling import rotary_frequencies


class RotaryEmbedding(nn.Cell):
    """Cosines and sines of position x frequency.

    The angles are taken in float64 when the Cell is built and looked up by position, so a far position loses no digits.

    Args:
        head_dim: head width E, even.
        max_positions: positions 0 .. max_positions - 1 can be looked up.
        theta: base of the frequencies.
        scaling: how they are stretched.
    """

    def __init__(self, head_dim: int, max_positions: int, theta: float, scaling: RopeScaling | None = None) -> None:
        super().__init__()
        frequencies, magnitude = rotary_frequencies(head_dim, theta, scaling)
        angles = np.arange(max_positions, dtype=np.float64)[:, None] * frequencies
        self.cos_table = Tensor((np.cos(angles) * magnitude).astype(np.float32))
        self.sin_table = Tensor((np.sin(angles) * magnitude).astype(np.float32))

    def construct(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Look the angles up, once a forward pass.

        Args:
            positions: (B, T) or (N,) int32, place of each token in its document, from 0.

        Returns:
            ``(cos, sin)``: (B*T, E/2) float32 each, for every layer and head.
        """
        flat_N = ops.reshape(positions, (-1,))
        return ops.gather(self.cos_table, flat_N, 0), ops.gather(self.sin_table, flat_N, 0)
