"""How good a reward model is, from its scores of pairs of answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

NUM_BINS = 10
SIMILAR_RATIO = 0.1
"""Answers whose lengths differ by at most this share of the longer one are of similar length."""


@dataclass(frozen=True)
class ScoredPairs:
    """Scores and lengths of N pairs of answers.

    Attributes:
        chosen_N: (N,) float, scores of the better answers.
        rejected_N: (N,) float, scores of the worse ones.
        chosen_length_N: (N,) int, tokens of the better answers.
        rejected_length_N: (N,) int, tokens of the worse ones.
    """

    chosen_N: np.ndarray
    rejected_N: np.ndarray
    chosen_length_N: np.ndarray
    rejected_length_N: np.ndarray

    @property
    def lead_N(self) -> np.ndarray:
        """(N,) float64, by how much the better answer leads."""
        return np.asarray(self.chosen_N, np.float64) - np.asarray(self.rejected_N, np.float64)

    @property
    def all_scores(self) -> np.ndarray:
        """(2N,) float64, every answer's score."""
        return np.concatenate([self.chosen_N, self.rejected_N]).astype(np.float64)


def pair_accuracy(lead_N: np.ndarray) -> float:
    """Share of pairs whose better answer leads; a tie counts half.

    Args:
        lead_N: (N,) float, score of the better answer minus that of the worse.

    Returns:
        From 0 to 1; NaN without a pair.
    """
    lead_N = np.asarray(lead_N)
    return float(np.mean((lead_N > 0) + 0.5 * (lead_N == 0))) if lead_N.size else math.nan


def calibration_error(lead_N: np.ndarray, *, num_bins: int = NUM_BINS) -> float:
    """Expected calibration error of the model's choice between the two answers of a pair.

    ``sum_b n_b / N |accuracy_b - confidence_b|`` over equal bins of [1/2, 1] (Guo et al. 2017, equation 3). The
    confidence of a choice is ``sigmoid(|lead|)``, the probability that Bradley-Terry gives to the answer with the
    higher score, and never less than 1/2; the choice is right when that answer is the better one, half right at a tie.

    Args:
        lead_N: (N,) float, score of the better answer minus that of the worse.
        num_bins: bins of [1/2, 1]; a confidence on a bound belongs to the bin below it, 1/2 to the first.

    Returns:
        From 0 (in each bin as often right as it claims) to 1; NaN without a pair.
    """
    lead_N = np.asarray(lead_N, np.float64)
    if not lead_N.size:
        return math.nan
    confidence_N = 1.0 / (1.0 + np.exp(-np.abs(lead_N)))
    right_N = (lead_N > 0) + 0.5 * (lead_N == 0)
    bin_N = np.clip(np.ceil((confidence_N - 0.5) * 2 * num_bins).astype(np.int64) - 1, 0, num_bins - 1)
    # n_b |accuracy_b - confidence_b| is the absolute sum of the differences in the bin
    gap_b = np.bincount(bin_N, weights=right_N - confidence_N, minlength=num_bins)
    return float(np.abs(gap_b).sum() / lead_N.size)


def length_correlation(score_M: np.ndarray, length_M: np.ndarray) -> float:
    """Pearson's correlation of scores with lengths: how far longer answers score higher, whatever they say.

    Args:
        score_M: (M,) float, scores of answers.
        length_M: (M,) int, their lengths.

    Returns:
        From -1 to 1; NaN when one of the two does not vary.
    """
    score = np.asarray(score_M, np.float64) - np.mean(score_M)
    length = np.asarray(length_M, np.float64) - np.mean(length_M)
    size = math.sqrt(float((score**2).sum()) * float((length**2).sum()))
    return float((score * length).sum() / size) if size > 0 else math.nan


def preference_stats(pairs: ScoredPairs) -> dict[str, float]:
    """Everything that is reported of a reward model but its loss.

    Args:
        pairs: scores and lengths of (N,) pairs, at least one.

    Returns:
        ``accuracy, margin`` (mean lead), ``score_chosen, score_rejected`` (means), ``calibration_error``,
        ``length_correlation`` over all answers, and for pairs whose better answer is the longer, the shorter or of
        similar length ``accuracy_...`` (NaN without such pairs) and ``pairs_...``, their number.
    """
    lead = pairs.lead_N
    chosen, rejected = (np.asarray(n, np.int64) for n in (pairs.chosen_length_N, pairs.rejected_length_N))
    similar = np.abs(chosen - rejected) <= SIMILAR_RATIO * np.maximum(chosen, rejected)
    groups = {
        "chosen_longer": ~similar & (chosen > rejected),
        "chosen_shorter": ~similar & (chosen < rejected),
        "similar_length": similar,
    }
    return {
        "accuracy": pair_accuracy(lead),
        "margin": float(lead.mean()),
        "score_chosen": float(np.mean(pairs.chosen_N, dtype=np.float64)),
        "score_rejected": float(np.mean(pairs.rejected_N, dtype=np.float64)),
        "calibration_error": calibration_error(lead),
        "length_correlation": length_correlation(pairs.all_scores, np.concatenate([chosen, rejected])),
        **{f"accuracy_{name}": pair_accuracy(lead[group]) for name, group in groups.items()},
        **{f"pairs_{name}": float(group.sum()) for name, group in groups.items()},
    }
