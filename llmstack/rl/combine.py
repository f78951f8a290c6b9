"""One score from the scores of several rewards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shares:
    """How much each reward counts.

    Attributes:
        weight_P: (P,) float, none of them 0.
        required_P: (P,) bool, True for rewards without which an answer is not scored.
    """

    weight_P: np.ndarray
    required_P: np.ndarray


def part_factors(shares: Shares, scored_PB: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each reward's score of an answer is multiplied by.

    ``f_pb = w_p sum_q |w_q| / sum_{q scored b} |w_q|`` for rewards that scored the answer, 0 for others: rewards that
    are missing leave their share to the rest, so that scores of all answers stay on one scale. The weights are absolute
    because with penalties among them the plain sum may vanish or change its sign.

    Args:
        shares: of the P rewards.
        scored_PB: (P, B) bool, True where a reward has scored an answer.

    Returns:
        (factor_PB, scored_B): (P, B) float64, and (B,) bool, False for answers without a score: a required reward is
            missing, or all of them are.
    """
    size_P1 = np.abs(np.asarray(shares.weight_P, np.float64))[:, None]
    scored_PB = np.asarray(scored_PB, bool)
    scored_B = scored_PB.any(axis=0) & (scored_PB | ~np.asarray(shares.required_P, bool)[:, None]).all(axis=0)
    there_B = (size_P1 * scored_PB).sum(axis=0)
    factor_B = np.where(scored_B, size_P1.sum() / np.where(there_B > 0, there_B, 1.0), 0.0)
    return np.asarray(shares.weight_P, np.float64)[:, None] * scored_PB * factor_B, scored_B
