"""From losses of tokens to the loss of a minibatch, as weights of tokens and a count of rows.

The loss of a minibatch is ``sum of weight * loss of each token / sum of count of each row``, both sums over all of its
rows, however these are cut into micro-batches or spread over processes. So each mode is one pair of arrays, and the
graph is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Aggregation:
    """How tokens and rows enter the loss.

    Attributes:
        weight_BR: (B, R) float32, weight of each token's loss, 0 where the mask is 0.
        count_B: (B,) float64, what each row adds to the denominator; 0 for a row without a token that counts.
    """

    weight_BR: np.ndarray
    count_B: np.ndarray


Aggregate = Callable[[np.ndarray], Aggregation]
"""An entry of the registry: the mask (B, R) of tokens that count in, weights and counts out."""


def token_mean(mask_BR: np.ndarray) -> Aggregation:
    """Every token weighs the same (Yu et al. 2025, DAPO, equation 12): long answers weigh more.

    Args:
        mask_BR: (B, R) 1 on tokens that count.
    """
    weight_BR = _real(mask_BR)
    return Aggregation(weight_BR, weight_BR.sum(axis=1, dtype=np.float64))


def seq_mean_token_mean(mask_BR: np.ndarray) -> Aggregation:
    """Mean over a row's tokens, then over rows (Shao et al. 2024, equation 3): long answers' tokens weigh less.

    Args:
        mask_BR: (B, R) 1 on tokens that count.
    """
    weight_BR = _real(mask_BR)
    length_B1 = np.maximum(weight_BR.sum(axis=1, keepdims=True), 1.0)
    return Aggregation(weight_BR / length_B1, _present(weight_BR))


def seq_mean_token_sum(mask_BR: np.ndarray) -> Aggregation:
    """Sum over a row's tokens, then mean over rows: the policy gradient of whole answers, as RLOO has it.

    Args:
        mask_BR: (B, R) 1 on tokens that count.
    """
    weight_BR = _real(mask_BR)
    return Aggregation(weight_BR, _present(weight_BR))


def seq_mean_token_sum_norm(mask_BR: np.ndarray) -> Aggregation:
    """Sum over a row's tokens divided by the constant R, then mean over rows (Liu et al. 2025, Dr. GRPO).

    Args:
        mask_BR: (B, R) 1 on tokens that count; R is the longest answer that is possible, not that of the batch.
    """
    weight_BR = _real(mask_BR)
    return Aggregation(weight_BR, _present(weight_BR) * weight_BR.shape[1])


def _real(mask_BR: np.ndarray) -> np.ndarray:
    return (np.asarray(mask_BR) != 0).astype(np.float32)


def _present(weight_BR: np.ndarray) -> np.ndarray:
    return weight_BR.any(axis=1).astype(np.float64)
