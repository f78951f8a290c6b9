"""The deviation of all scores so far, by which scores are divided."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

_SMALLEST_STD = 1e-6


class ScoreScale:
    """Running count, mean and variance of scores, joined batch by batch (Chan, Golub and LeVeque 1983, equation 2.1).

    With n, mean, M2 = sum (x - mean)^2 of what was seen and those of a batch of k: d = mean_k - mean,
    M2 <- M2 + M2_k + d^2 n k / (n + k), mean <- mean + d k / (n + k). The order of the answers within a batch and how
    it is split over processes do not matter beyond rounding.
    """

    def __init__(self) -> None:
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def update(self, score_B: np.ndarray, scored_B: np.ndarray) -> None:
        """Take in a batch.

        Args:
            score_B: (B,) float.
            scored_B: (B,) bool, which of them count.
        """
        scores = np.asarray(score_B, np.float64)[np.asarray(scored_B, bool)]
        if not scores.size:
            return
        mean, total = float(scores.mean()), self._count + scores.size
        step = mean - self._mean
        self._squares += float(((scores - mean) ** 2).sum()) + step**2 * self._count * scores.size / total
        self._mean += step * scores.size / total
        self._count = total

    @property
    def std(self) -> float:
        """Population standard deviation of what was seen; 1 while there is none to speak of."""
        std = math.sqrt(self._squares / self._count) if self._count > 1 else 0.0
        return std if std > _SMALLEST_STD else 1.0

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {"count": self._count, "mean": self._mean, "squares": self._squares}

    def restore(self, state: Mapping[str, float]) -> None:
        """Take back what ``state()`` gave.

        Args:
            state: with ``count``, ``mean`` and ``squares``.
        """
        self._count, self._mean, self._squares = int(state["count"]), float(state["mean"]), float(state["squares"])
