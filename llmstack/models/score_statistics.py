"""Mean and deviation of a reward model's scores, kept in its ``config.json``."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from llmstack.errors import UserError
from llmstack.models.hf_config import read_json, write_json

KEY = "score_statistics"
"""Where they are in ``config.json``; transformers passes over it."""


@dataclass(frozen=True)
class ScoreStatistics:
    """What scores of a reward model are like on data it was not trained on.

    Attributes:
        mean: of all scores.
        std: their population standard deviation.
        answers: how many answers were scored.
    """

    mean: float
    std: float
    answers: int

    def normalise(self, score_B: np.ndarray) -> np.ndarray:
        """``(score - mean) / std``: scores whose unit is the deviation, whatever model they are from.

        Args:
            score_B: (B,) float.

        Returns:
            (B,) float32.
        """
        return ((np.asarray(score_B, np.float64) - self.mean) / self.std).astype(np.float32)


def measure(scores: np.ndarray) -> ScoreStatistics:
    """The statistics of some scores.

    Args:
        scores: (N,) float, at least one.
    """
    scores = np.asarray(scores, np.float64)
    return ScoreStatistics(float(scores.mean()), float(scores.std()), int(scores.size))


def write_statistics(folder: Path, statistics: ScoreStatistics) -> None:
    """Put statistics into a model folder.

    Args:
        folder: a written model folder.
        statistics: of the model's scores.
    """
    path = folder / "config.json"
    write_json(path, read_json(path) | {KEY: asdict(statistics)})


def read_statistics(folder: Path, *, where: str) -> ScoreStatistics:
    """The statistics of a model folder.

    Args:
        folder: the folder of a reward model.
        where: the option that asks for them, for messages.

    Raises:
        UserError: it has none, or none that could be divided by.
    """
    path = folder / "config.json"
    values = read_json(path).get(KEY)
    known = values if isinstance(values, dict) else {}
    numbers = [known.get(name) for name in ("mean", "std")]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers):
        raise UserError(
            f"{where}: expected a model with the mean and deviation of its scores, got {path} without `{KEY}`. "
            "Train it with a reward stage of llmstack, or set `normalise: false`."
        )
    mean, std = (float(n) for n in numbers if n is not None)
    if not std > 0:
        raise UserError(
            f"{where}: expected scores that differ, got a deviation of {std:g} in {path}. "
            "Set `normalise: false`, or train the model longer."
        )
    answers = known.get("answers")
    return ScoreStatistics(mean, std, answers if isinstance(answers, int) else 0)
