"""Answers to prompts never trained on, and what rewards say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from llmstack.data.loader import Batch
from llmstack.stages.online.rewards import Reward
from llmstack.stages.online.rollout import Rollout


@dataclass(frozen=True)
class Judged:
    """What came of an evaluation.

    Attributes:
        means: mean of each measure over the answers that have it; NaN when none has.
        num_prompts: how many prompts were answered.
        samples: prompts and answers, for ``samples.jsonl``.
    """

    means: dict[str, float]
    num_prompts: int
    samples: list[dict[str, Any]]


def judge(
    batches: Iterable[Batch],
    roll_out: Callable[[int, Batch], Rollout],
    rewards: Mapping[str, Reward],
    measure: Callable[[Rollout], Mapping[str, np.ndarray]] = lambda rollout: {},
) -> Judged:
    """Have prompts answered and the answers measured.

    Args:
        batches: batches of prompts with their ``weight``.
        roll_out: answers a batch, given its number.
        rewards: score the answers, by name.
        measure: other measures by name, (B,) each.

    Returns:
        Means of ``length`` and ``finished``, of every reward and of every other measure.
    """
    kept: dict[str, list[float]] = {name: [] for name in ("length", "finished", *rewards)}
    samples: list[dict[str, Any]] = []
    for number, batch in enumerate(batches):
        rollout = roll_out(number, batch)
        real = batch["weight"] > 0
        measured = {
            "length": rollout.mask_BR.sum(axis=1),
            "finished": rollout.finished_B.astype(np.float64),
            **measure(rollout),
            **{name: _scores(reward, rollout) for name, reward in rewards.items()},
        }
        for name, values in measured.items():
            kept.setdefault(name, []).extend(float(value) for value in values[real] if np.isfinite(value))
        samples += _samples(rollout, real)
    means = {name: float(np.mean(values)) if values else float("nan") for name, values in kept.items()}
    return Judged(means, len(samples), samples)


def _scores(reward: Reward, rollout: Rollout) -> np.ndarray:
    """A score an answer, NaN where unscored."""
    scores = reward.score(rollout)
    return np.where(scores.scored_B, scores.score_B, np.nan)


def _samples(rollout: Rollout, real: np.ndarray) -> list[dict[str, Any]]:
    return [
        {
            "prompt": rollout.texts.prompts[row],
            "response": rollout.texts.responses[row],
            "finished": bool(rollout.finished_B[row]),
        }
        for row in np.flatnonzero(real).tolist()
    ]
