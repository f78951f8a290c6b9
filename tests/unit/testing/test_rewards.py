from __future__ import annotations

import itertools

import pytest

from llmstack.testing import check_reward
from tests.unit.rewards.batches import batch, make

ANSWERS = batch(["7", "so 8", "none"], ["7", "7", "7"])


@pytest.mark.parametrize(
    "reward",
    [
        lambda batch: [float(len(text)) for text in batch.responses],
        make("exact_match"),
        make("exact_match", extract="(.)"),
        make("numeric_answer"),
        make("numeric_answer", expressions=True),
        make("format_regex", pattern="(a+)+"),
        make("length_shaping", mode="target", target=3, unit="words"),
        make("repetition"),
    ],
)
def test_good_rewards_pass(reward):
    check_reward(reward)
    check_reward(reward, ANSWERS)


def raising(batch):
    return [1 / len(text) for text in batch.responses]


def short(batch):
    return [0.0] * (len(batch) - 1)


def changing(batch):
    batch.responses.sort()
    return [0.0] * len(batch)


def by_place(batch):
    return list(range(len(batch)))


def by_neighbours(batch):
    longest = max(map(len, batch.responses))
    return [float(len(text) == longest) for text in batch.responses]


calls = itertools.count()


def by_time(batch):
    return [float(next(calls)) for _ in batch.responses]


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (raising, "got ZeroDivisionError"),
        (short, "expected 9 scores, one for each response, got 8"),
        (changing, "the batch changed"),
        (by_place, "the order of the answers matters"),
        (by_neighbours, "depends on the answers beside it"),
        (by_time, "a second call gives other scores"),
    ],
)
def test_bad_ones_are_told(reward, message):
    with pytest.raises(AssertionError, match=message):
        check_reward(reward)


def test_a_reward_that_can_score_nothing_of_its_own():
    with pytest.raises(AssertionError, match="expected a score for at least one of 3 answers"):
        check_reward(lambda batch: [None] * len(batch), ANSWERS)
