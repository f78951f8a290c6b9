"""What a reward function is given, what it must give back, and how that is checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from llmstack.errors import UserError


@dataclass(frozen=True)
class RewardBatch:
    """Answers to be scored; item i of each list belongs together.

    Attributes:
        prompts: the prompts as text.
        responses: the policy's answers as text, without special tokens.
        answers: the data's reference answer of each prompt, None where it has none.
    """

    prompts: list[str]
    responses: list[str]
    answers: list[str | None]

    def __post_init__(self) -> None:
        if not len(self.prompts) == len(self.responses) == len(self.answers):
            lengths = (len(self.prompts), len(self.responses), len(self.answers))
            raise ValueError(
                f"RewardBatch: expected three lists of one length, got {lengths}. Pass one item per answer."
            )

    def __len__(self) -> int:
        """Number of answers."""
        return len(self.responses)


RewardFunction = Callable[[RewardBatch], Sequence["float | None"]]
"""A reward: one finite number for each answer, higher is better; None or NaN for an answer it cannot score."""


@dataclass(frozen=True)
class Scores:
    """A checked result of a reward function.

    Attributes:
        score_B: (B,) float32, 0 where unscored.
        scored_B: (B,) bool, True where the function gave a number. The others take no part in training; they are
            counted.
    """

    score_B: np.ndarray
    scored_B: np.ndarray

    @property
    def num_unscored(self) -> int:
        """Answers without a score."""
        return int((~self.scored_B).sum())


def score_answers(function: RewardFunction, batch: RewardBatch, *, path: str) -> Scores:
    """Call a reward function and check what it returns.

    Args:
        function: the reward.
        batch: the answers.
        path: where the reward stands in the recipe, for messages, e.g. ``stages.policy.reward``.

    Returns:
        One score per answer, in the batch's order.

    Raises:
        UserError: the result has another length, or an item that is neither a finite number nor None or NaN.
    """
    result = function(batch)
    if not isinstance(result, Sequence | np.ndarray) or isinstance(result, str | bytes):
        raise UserError(
            f"{path}: expected a sequence of {len(batch)} scores, got {type(result).__name__}. "
            "Return a list with one number (or None) for each response."
        )
    if len(result) != len(batch):
        raise UserError(
            f"{path}: expected {len(batch)} scores, one for each response, got {len(result)}. "
            "Return None for a response that cannot be scored instead of leaving it out."
        )
    numbers = np.array([_number(item, index, path) for index, item in enumerate(result)], np.float64)
    scored = ~np.isnan(numbers)
    return Scores(score_B=np.where(scored, numbers, 0.0).astype(np.float32), scored_B=scored)


def _number(item: object, index: int, path: str) -> float:
    if item is None:
        return math.nan
    if not isinstance(item, int | float | np.number | np.bool_) or math.isinf(item):
        raise UserError(
            f"{path}: expected a finite number or None as score {index}, got {item!r}. "
            "Return None for a response that cannot be scored."
        )
    return float(item)
