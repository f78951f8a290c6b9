"""What turns the trunk's output into logits or scores."""

from __future__ import annotations

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from llmstack.nn import kernels


class LanguageHead(nn.Cell):
    """Logits over the vocabulary: hidden W^T, with the head's own matrix or the embedding's (Press & Wolf 2017).

    Args:
        hidden_size: width D.
        vocab_size: vocabulary V.
        tied: (V, D) embedding Parameter to use as W; None makes the head's own.
    """

    def __init__(self, hidden_size: int, vocab_size: int, *, tied: Parameter | None = None) -> None:
        super().__init__()
        own = Parameter(ops.zeros((vocab_size, hidden_size), ms.float32), name="weight") if tied is None else tied
        self.weight = own
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
        self.weight = Parameter(ops.zeros((1, hidden_size), ms.float32), name="weight")
        self.project = kernels.linear()

    def construct(self, hidden_ND: Tensor) -> Tensor:
        """Project.

        Args:
            hidden_ND: (N, D) float32, any choice of rows of the trunk's output.

        Returns:
            (N,) float32.
        """
        return ops.reshape(self.project(hidden_ND, self.weight), (-1,))
