"""What every reward that reads text must keep to."""

from __future__ import annotations

import copy

from llmstack.errors import UserError
from llmstack.rl.rewards_api import RewardBatch, RewardFunction, Scores, score_answers

HARD_ANSWERS = ("", " ", "\n\n", "42", "word " * 200, "\u00e9\u4e2d\U0001f600\ufffd", "\\boxed{", "(((", "a\x00b")
"""Answers a policy may give at any time."""


def check_reward(reward: RewardFunction, batch: RewardBatch | None = None) -> None:
    """Check that a reward scores any answer, each for itself, and always alike.

    Args:
        reward: a function of a RewardBatch, or a ``TextReward`` with its options.
        batch: answers that it should be able to score, at least one; None takes hard ones without reference answers,
            all of which it may leave unscored.

    Raises:
        AssertionError: it raises, returns something else than a number or None for each answer, changes its batch, or
            scores an answer differently a second time, at another place, or without its neighbours.
    """
    if batch is not None and not _scores(reward, batch).scored_B.any():
        raise AssertionError(f"expected a score for at least one of {len(batch)} answers, got none.")
    hard = RewardBatch(
        prompts=["prompt"] * len(HARD_ANSWERS),
        responses=list(HARD_ANSWERS),
        answers=[None] * len(HARD_ANSWERS),
        num_tokens=[len(text.split()) + 1 for text in HARD_ANSWERS],
    )
    for answers in (hard, batch):
        if answers is not None:
            _check(reward, answers)


def _check(reward: RewardFunction, batch: RewardBatch) -> None:
    before = copy.deepcopy(batch)
    first = _values(reward, batch)
    _same(batch.__dict__, before.__dict__, "the batch changed")
    _same(first, _values(reward, batch), "a second call gives other scores")
    turned = list(reversed(range(len(batch))))
    _same([first[row] for row in turned], _values(reward, _rows(batch, turned)), "the order of the answers matters")
    alone = [_values(reward, _rows(batch, [row]))[0] for row in range(len(batch))]
    _same(first, alone, "an answer's score depends on the answers beside it")


def _rows(batch: RewardBatch, rows: list[int]) -> RewardBatch:
    return RewardBatch(
        prompts=[batch.prompts[row] for row in rows],
        responses=[batch.responses[row] for row in rows],
        answers=[batch.answers[row] for row in rows],
        num_tokens=None if batch.num_tokens is None else [batch.num_tokens[row] for row in rows],
    )


def _values(reward: RewardFunction, batch: RewardBatch) -> list[float | None]:
    scores = _scores(reward, batch)
    return [float(n) if ok else None for n, ok in zip(scores.score_B, scores.scored_B, strict=True)]


def _scores(reward: RewardFunction, batch: RewardBatch) -> Scores:
    try:
        return score_answers(reward, batch, path="reward")
    except UserError as error:
        raise AssertionError(str(error)) from error


def _same(one: object, other: object, what: str) -> None:
    if one != other:
        raise AssertionError(f"expected each answer to be scored for itself, but {what}: {one} and {other}.")
