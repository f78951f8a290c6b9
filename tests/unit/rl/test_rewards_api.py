from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import StepUndone, UserError
from llmstack.rl.rewards_api import (
    FirstScores,
    RewardBatch,
    Scores,
    none_scored,
    score_answers,
)
from tests.tolerances import F32_ATOL

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
    with pytest.raises(ValueError, match="expected num_tokens of 1 answers, got 2"):
        RewardBatch(prompts=["a"], responses=["x"], answers=[None], num_tokens=[1, 2])


def test_a_function_that_raises_is_the_users_to_mend():
    def broken(batch):
        return [1 / 0 for _ in batch.responses]

    with pytest.raises(
        UserError, match=r"stages\.p\.reward: expected scores, got ZeroDivisionError .*rewards_api\.py:\d+"
    ):
        score_answers(broken, BATCH, path="stages.p.reward")


@pytest.mark.parametrize("error", [UserError("mine"), StepUndone("later")])
def test_errors_of_ours_pass(error):
    def failing(batch):
        raise error

    with pytest.raises(type(error), match=str(error)):
        score_answers(failing, BATCH, path="reward")


@pytest.mark.parametrize("result", [[None] * 3, [float("nan")] * 3])
def test_a_reward_that_never_scores_is_told_at_its_first_batch(result):
    scores = scored(result)
    assert scores.num_unscored == 3
    with pytest.raises(UserError, match=r"reward: expected a score for at least one of 3 answers, got none \(all None"):
        FirstScores().note(scores.scored_B, lambda: none_scored(BATCH, "reward"))
    without = RewardBatch(prompts=["a"], responses=["x"], answers=[None])
    assert "The prompts' data has no `answer`" in none_scored(without, "reward")


def test_a_reward_may_have_nothing_to_score_later():
    blank, some = np.zeros(2, bool), np.array([True, False])
    seen = FirstScores()
    seen.note(np.zeros(0, bool), str)
    seen.note(some, str)
    for _ in range(20):
        seen.note(blank, str)


def test_what_is_earned_before_the_end_is_part_of_the_score():
    both = np.ones(2, bool)
    score = np.array([1.0, 0.5], np.float32)
    assert Scores(score, both).final_score_B is score
    steps = np.array([[0.25, 0.0, 0.5], [0.0, 0.0, 0.0]], np.float32)
    np.testing.assert_allclose(Scores(score, both, steps).final_score_B, [0.25, 0.5], rtol=0, atol=F32_ATOL)
