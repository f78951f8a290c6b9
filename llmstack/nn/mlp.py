"""Gated feed-forward."""

from __future__ import annotations

from mindspore import Tensor, nn

from llmstack.nn import kernels
from llmstack.nn.linear import Linear


class SwiGLU(nn.Cell):
    """down(silu(gate(x)) * up(x)) (Shazeer 2020, equation 6); gate and up are one matmul.

    Args:
        hidden_size: width D.
        intermediate_size: width F.
        bias: whether all three projections have one.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, *, bias: bool = False) -> None:
        super().__init__()
        self.gate_up = Linear(hidden_size, 2 * intermediate_size, bias=bias)
        self.down = Linear(intermediate_size, hidden_size, bias=bias)
        self.kernel = kernels.swiglu()

    def construct(self, hidden_ND: Tensor) -> Tensor:
        """Transform every token by itself.

        Args:
            hidden_ND: (B*T, D) float32.

        Returns:
            (B*T, D) float32.
        """
        return self.down(self.kernel(self.gate_up(hidden_ND)))
