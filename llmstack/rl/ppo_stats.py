"""What a PPO iteration reports about itself, over real tokens and scored answers only."""

from __future__ import annotations

import numpy as np

from llmstack.rl.rewards_api import Scores
from llmstack.rl.whiten import masked_mean, masked_var

_TINY_VARIANCE = 1e-12


def explained_variance(value_BR: np.ndarray, return_BR: np.ndarray, response_mask_BR: np.ndarray) -> float:
    """Share of the returns' variance that the values foresaw: ``1 - Var(R - V) / Var(R)``.

    Args:
        value_BR: (B, R) float, V of the state before token t, from when the rollout was made.
        return_BR: (B, R) float, returns of ``gae``.
        response_mask_BR: (B, R) 1 for the answer's tokens.

    Returns:
        At most 1 (perfect); 0 for values that say nothing, and when the returns do not vary; negative for harmful
        values.
    """
    total = masked_var(return_BR, response_mask_BR)
    if total < _TINY_VARIANCE:
        return 0.0
    real = np.asarray(response_mask_BR) != 0
    error = np.where(real, np.asarray(return_BR, np.float64), 0.0) - np.where(real, value_BR, 0.0)
    return 1.0 - masked_var(error, response_mask_BR) / total


def answer_stats(scores: Scores, finished_B: np.ndarray, response_mask_BR: np.ndarray) -> dict[str, float]:
    """The rollout in six numbers.

    Args:
        scores: checked scores of the answers.
        finished_B: (B,) 1 for answers that ended with an end token.
        response_mask_BR: (B, R) 1 for the answer's tokens.

    Returns:
        ``score_mean`` and ``score_std`` over scored answers; ``unscored_ratio``, ``truncated_ratio`` over all answers;
        ``response_tokens`` mean length; ``empty_ratio`` answers that ended at once (one token or none). What the
        scoring itself reports (``scores.metrics``) comes along.
    """
    length_B = (np.asarray(response_mask_BR) != 0).sum(axis=-1)
    return {
        "score_mean": masked_mean(scores.score_B, scores.scored_B),
        "score_std": masked_var(scores.score_B, scores.scored_B) ** 0.5,
        "unscored_ratio": scores.num_unscored / length_B.size,
        "truncated_ratio": float((np.asarray(finished_B) == 0).mean()),
        "response_tokens": float(length_B.mean()),
        "empty_ratio": float((length_B <= 1).mean()),
        **scores.metrics,
    }
