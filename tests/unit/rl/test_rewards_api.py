from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.rl.rewards_api import RewardBatch, score_answers

BATCH = RewardBatch(prompts=["a", "b", "c"], responses=["x", "yy", "zzz"], answers=[None, "y", None])


def scored(result):
    return score_answers(lambda batch: result, BATCH, path="stages.policy.reward")


def test_function_sees_the_batch_and_scores_keep_its_order():
    scores = score_answers(lambda batch: [len(text) for text in batch.responses], BATCH, path="reward")
    assert scores.score_B.tolist() == [1.0, 2.0, 3.0]
    assert scores.score_B.dtype == np.float32
    assert scores.num_unscored == 0


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan")])
def test_missing_scores_are_counted_and_kept_apart(missing):
    scores = scored([1.5, missing, -2])
    assert scores.score_B.tolist() == [1.5, 0.0, -2.0]
    assert scores.scored_B.tolist() == [True, False, True]
    assert scores.num_unscored == 1


@pytest.mark.parametrize("result", [np.array([1.0, 2.0, 3.0], np.float32), (True, 2, 3.0)])
def test_arrays_and_tuples_are_sequences_too(result):
    assert scored(result).score_B.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("result", [[1.0, 2.0], [1.0] * 4, []])
def test_wrong_number_of_scores(result):
    with pytest.raises(UserError, match=rf"stages\.policy\.reward: expected 3 scores.*got {len(result)}\."):
        scored(result)


@pytest.mark.parametrize(("result", "found"), [(1.0, "float"), ("abc", "str"), (None, "NoneType"), ({1: 2}, "dict")])
def test_result_that_is_no_sequence(result, found):
    with pytest.raises(UserError, match=f"expected a sequence of 3 scores, got {found}"):
        scored(result)


@pytest.mark.parametrize("item", ["1.0", float("inf"), [1.0], 1j])
def test_item_that_is_no_finite_number(item):
    with pytest.raises(UserError, match="expected a finite number or None as score 1"):
        scored([0.0, item, 0.0])


def test_lists_of_a_batch_belong_together():
    assert len(BATCH) == 3
    with pytest.raises(ValueError, match=r"three lists of one length, got \(1, 2, 1\)"):
        RewardBatch(prompts=["a"], responses=["x", "y"], answers=[None])
