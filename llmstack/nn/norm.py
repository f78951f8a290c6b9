"""Root-mean-square normalisation."""

from __future__ import annotations

from mindspore import Tensor, nn

from llmstack.nn import kernels
from llmstack.nn.init import blank_parameter


class RMSNorm(nn.Cell):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang & Sennrich 2019, equation 4).

    Args:
        dim: width D of the last axis.
        eps: added to the mean square.
    """

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = blank_parameter("weight", (dim,), fill="ones")
        self.kernel = kernels.rms_norm(eps)

    def construct(self, hidden: Tensor) -> Tensor:
        """Normalise.

        Args:
            hidden: (..., D) float32.

        Returns:
            (..., D) float32.
        """
        return self.kernel(hidden, self.weight)
