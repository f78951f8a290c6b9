"""What a reward function is given, what it must give back, and how that is checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llmstack.errors import StepUndone, UserError
from llmstack.plugins import raised_at


@dataclass(frozen=True)
class RewardBatch:
    """Answers to be scored; item i of each list belongs together.

    Attributes:
        prompts: the prompts as text.
        responses: the policy's answers as text, without special tokens.
        answers: the data's reference answer of each prompt, None where it has none.
        num_tokens: tokens of each answer, its end token included; None where they are not known.
    """

    prompts: list[str]
    responses: list[str]
    answers: list[str | None]
    num_tokens: list[int] | None = None

    def __post_init__(self) -> None:
        if self.num_tokens is not None and len(self.num_tokens) != len(self.responses):
            raise ValueError(
                f"RewardBatch: expected num_tokens of {len(self.responses)} answers, got {len(self.num_tokens)}. "
                "Pass one item per answer."
            )
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
        token_score_BR: (B, R) float32, the part of ``score_B`` that is earned before the end, at the token that earns
            it (the scores of steps); None: all of it is earned at the end.
        metrics: numbers about the scoring itself by name, e.g. the mean of each part of a combined reward.
    """

    score_B: np.ndarray
    scored_B: np.ndarray
    token_score_BR: np.ndarray | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def final_score_B(self) -> np.ndarray:
        """(B,) float32, the part of each score that is earned at the end of the answer."""
        if self.token_score_BR is None:
            return self.score_B
        return (self.score_B - self.token_score_BR.sum(axis=1)).astype(np.float32)

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
        UserError: the function failed, the result has another length, or an item that is neither a finite number nor
            None or NaN.
    """
    result = call(function, batch, path=path)
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
    numbers = np.array([number(item, f"score {index}", path) for index, item in enumerate(result)], np.float64)
    scored = ~np.isnan(numbers)
    return Scores(score_B=np.where(scored, numbers, 0.0).astype(np.float32), scored_B=scored)


class FirstScores:
    """Tells a reward that never scores from one that had nothing to score.

    A reward whose first batch has not one score is wrong. Later a batch without a score may happen, e.g. when a policy
    has learnt to say nothing; such batches are counted as unscored like single answers.
    """

    def __init__(self) -> None:
        self._seen = False

    def note(self, scored_B: np.ndarray, complaint: Callable[[], str]) -> None:
        """Look at a batch.

        Args:
            scored_B: (B,) bool, which of its answers have a score.
            complaint: makes the message.

        Raises:
            UserError: nothing has been scored so far.
        """
        self._seen = self._seen or bool(scored_B.any())
        if scored_B.size and not self._seen:
            raise UserError(complaint())


def call(function: Callable[..., Any], *arguments: object, path: str) -> Any:
    """Call a user's function so that its failure is told as the user's to mend.

    Args:
        function: the function.
        arguments: what it is given.
        path: where it stands in the recipe, for messages.

    Returns:
        What it returns.

    Raises:
        UserError: it raised something; the message names error, file and line.
    """
    try:
        return function(*arguments)
    except (UserError, StepUndone):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a user's function raises is the user's to mend
        raise UserError(
            f"{path}: expected scores, got {type(error).__name__} ({error}) {raised_at(error)}from the reward "
            "function. Mend it, or its arguments."
        ) from error


def none_scored(batch: RewardBatch, path: str) -> str:
    """The complaint about a batch without a single score, from which nothing could be learnt.

    Args:
        batch: the answers.
        path: where the reward stands in the recipe.
    """
    known = sum(answer is not None for answer in batch.answers)
    fix = (
        "Look at what the reward returns for one answer."
        if known
        else "The prompts' data has no `answer`: if the reward compares with one, add that field."
    )
    return f"{path}: expected a score for at least one of {len(batch)} answers, got none (all None or NaN). {fix}"


def number(item: object, what: str, path: str) -> float:
    """One item of what a reward function returned.

    Args:
        item: the item.
        what: which one it is, for messages.
        path: where the reward stands in the recipe.

    Returns:
        The number; NaN for None.

    Raises:
        UserError: neither a finite number nor None or NaN.
    """
    if item is None:
        return math.nan
    if not isinstance(item, int | float | np.number | np.bool_) or math.isinf(item):
        raise UserError(
            f"{path}: expected a finite number or None as {what}, got {item!r}. "
            "Return None for a response that cannot be scored."
        )
    return float(item)
