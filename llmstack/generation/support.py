"""Which tokens may be drawn: top-k, nucleus and min-p."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn, ops

from llmstack.generation.rules import SamplingRules


class TopK(nn.Cell):
    """Keeps the k likeliest tokens (Fan et al. 2018, section 5.4). Ties at the bound are all kept.

    Args:
        k: how many; a k of the vocabulary's size or more keeps every token.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.best = ops.TopK(sorted=True)

    def construct(self, weights_BV: Tensor) -> Tensor:
        """Zero what may not be drawn.

        Args:
            weights_BV: (B, V) float32, probabilities up to a factor.

        Returns:
            (B, V) float32, the same with zeros.
        """
        k = min(self.k, weights_BV.shape[1])
        best_Bk, _ = self.best(weights_BV, k)
        bound_B1 = ops.gather(best_Bk, Tensor([k - 1], ms.int32), 1)
        return weights_BV * ops.cast(ops.greater_equal(weights_BV, bound_B1), ms.float32)


class TopP(nn.Cell):
    """Keeps the fewest likeliest tokens whose share of the weight reaches p (Holtzman et al. 2020, section 3.1).

    A token stays when the tokens likelier than it hold less than p; ties at the bound are all kept.

    Args:
        p: share of the weight, above 0 and below 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.sort = ops.Sort(axis=-1, descending=True)
        self.cumulate = ops.CumSum()
        self.sum = ops.ReduceSum(keep_dims=True)

    def construct(self, weights_BV: Tensor) -> Tensor:
        """Zero what may not be drawn.

        Args:
            weights_BV: (B, V) float32, probabilities up to a factor.

        Returns:
            (B, V) float32, the same with zeros.
        """
        sorted_BV, _ = self.sort(weights_BV)
        before_BV = self.cumulate(sorted_BV, 1) - sorted_BV
        inside_BV = ops.less(before_BV, self.p * self.sum(weights_BV, 1))
        # the sums grow along the row, so the tokens inside are its first ones and the last of them is the bound
        last_B1 = ops.cast(self.sum(ops.cast(inside_BV, ms.float32), 1), ms.int32) - 1
        bound_B1 = ops.gather_elements(sorted_BV, 1, last_B1)
        return weights_BV * ops.cast(ops.greater_equal(weights_BV, bound_B1), ms.float32)


class MinP(nn.Cell):
    """Keeps the tokens at least p times as likely as the likeliest (Nguyen et al. 2024, algorithm 1).

    Args:
        p: share of the largest weight, above 0 and at most 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.largest = ops.ReduceMax(keep_dims=True)

    def construct(self, weights_BV: Tensor) -> Tensor:
        """Zero what may not be drawn.

        Args:
            weights_BV: (B, V) float32, probabilities up to a factor.

        Returns:
            (B, V) float32, the same with zeros.
        """
        bound_B1 = self.p * self.largest(weights_BV, 1)
        return weights_BV * ops.cast(ops.greater_equal(weights_BV, bound_B1), ms.float32)


def support(rules: SamplingRules) -> nn.Cell | None:
    """A Cell ``weights_BV -> weights_BV`` with zeros on tokens that may not be drawn; None when all may.

    Args:
        rules: of which top-k, top-p and min-p count here, in this order.
    """
    cells: list[nn.Cell] = [TopK(rules.top_k)] if rules.top_k else []
    if rules.top_p < 1.0:
        cells.append(TopP(rules.top_p))
    if rules.min_p > 0.0:
        cells.append(MinP(rules.min_p))
    return nn.SequentialCell(cells) if cells else None
