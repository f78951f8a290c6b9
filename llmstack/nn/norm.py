"""Root-mean-square normalisation."""

from __future__ import annotations

from mindspore import Parameter, Tensor, nn, ops

from llmstack.nn import kernels


class RMSNorm(nn.Cell):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang & Sennrich 2019, equation 4).

    Args:
        dim: width D of the last axis.
        eps: added to the mean square.
    """

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = Parameter(ops.ones(dim), name="weight")
        self.kernel = kernels.rms_norm(eps)

    def construct(self, hidden: Tensor) -> Tensor:
        """Normalise.

        Args:
            hidden: (..., D) float32.

        Returns:
            (..., D) float32.
        """
        return self.kernel(hidden, self.weight)
