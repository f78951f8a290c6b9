"""Gated feed-forward."""

from __future__ import annotations

from mindspore import Tensor, nn

from llmstack.nn import kernels
from llmstack.nn.init import blank_parameter


class SwiGLU(nn.Cell):
    """down(silu(gate(x)) * up(x)) without biases (Shazeer 2020, equation 6); gate and up are one matmul.

    Args:
        hidden_size: width D.
        intermediate_size: width F.
    """

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_up = blank_parameter("gate_up", (2 * intermediate_size, hidden_size))
        self.down = blank_parameter("down", (hidden_size, intermediate_size))
        self.project_in = kernels.linear()
        self.project_out = kernels.linear()
        self.kernel = kernels.swiglu()

    def construct(self, hidden_ND: Tensor) -> Tensor:
        """Transform every token by itself.

        Args:
            hidden_ND: (B*T, D) float32.

        Returns:
            (B*T, D) float32.
        """
        return self.project_out(self.kernel(self.project_in(hidden_ND, self.gate_up)), self.down)
