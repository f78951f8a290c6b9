"""What turns the trunk's output into logits or scores."""

from __future__ import annotations

from mindspore import Parameter, Tensor, nn, ops

from llmstack.nn import kernels
from llmstack.nn.init import blank_parameter


class LanguageHead(nn.Cell):
    """Logits over the vocabulary: hidden W^T, with the head's own matrix or the embedding's (Press & Wolf 2017).

    Args:
        hidden_size: width D.
        vocab_size: vocabulary V.
        tied: (V, D) embedding Parameter to use as W; None makes the head's own.
    """

    def __init__(self, hidden_size: int, vocab_size: int, *, tied: Parameter | None = None) -> None:
        super().__init__()
        self.weight = blank_parameter("weight", (vocab_size, hidden_size)) if tied is None else tied
        self.project = kernels.linear()

    def construct(self, hidden_ND: Tensor) -> Tensor:
        """Project.

        Args:
            hidden_ND: (N, D) float32, any choice of rows of the trunk's output.

        Returns:
            (N, V) float32.
        """
        return self.project(hidden_ND, self.weight)


class ScalarHead(nn.Cell):
    """One number a token: hidden w^T.

    Args:
        hidden_size: width D.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.weight = blank_parameter("weight", (1, hidden_size))
        self.project = kernels.linear()

    def construct(self, hidden_ND: Tensor) -> Tensor:
        """Project.

        Args:
            hidden_ND: (N, D) float32, any choice of rows of the trunk's output.

        Returns:
            (N,) float32.
        """
        return ops.reshape(self.project(hidden_ND, self.weight), (-1,))
