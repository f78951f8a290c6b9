"""A linear layer: what a decoder block projects with."""

from __future__ import annotations

from mindspore import Tensor, nn

from llmstack.nn import kernels
from llmstack.nn.init import blank_parameter


class Linear(nn.Cell):
    """x W^T + b.

    Args:
        in_width: I.
        out_width: O.
        bias: whether there is a b.
    """

    def __init__(self, in_width: int, out_width: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = blank_parameter("weight", (out_width, in_width))
        self.has_bias = bias
        if bias:
            self.bias = blank_parameter("bias", (out_width,))
        self.project = kernels.linear()

    def construct(self, rows_NI: Tensor) -> Tensor:
        """Project each row.

        Args:
            rows_NI: (N, I) float32.

        Returns:
            (N, O) float32.
        """
        out_NO = self.project(rows_NI, self.weight)
        return out_NO + self.bias if self.has_bias else out_NO
