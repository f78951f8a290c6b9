from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from llmstack.config.rewards import AnyReward
from llmstack.errors import UserError
from llmstack.registry import REWARDS
from llmstack.rl.ppo_stats import answer_stats
from llmstack.rl.rewards_api import RewardBatch, Scores
from llmstack.stages.online.combined import CombinedReward
from llmstack.stages.online.rewards import make_reward
from tests.tolerances import F32_ATOL
from tests.unit.stages.online.test_rollout import rollout

decode = TypeAdapter(AnyReward).validate_python
RIGHT = {"kind": "exact_match"}
LENGTH = {"kind": "length_shaping", "mode": "target", "target": 2}


def answered(*answers, responses=("c", "d")):
    texts = RewardBatch(prompts=["a", "b"], responses=list(responses), answers=list(answers), num_tokens=[2, 3])
    return dataclasses.replace(rollout(), texts=texts)


def combined(**parts):
    return make_reward(decode({"kind": "combine", "of": parts}), None, "stages.p.reward")


def test_a_weighted_sum_and_the_parts_means():
    made = combined(right={"weight": 2.0, "reward": RIGHT}, length={"reward": LENGTH, "weight": 0.5})
    scores = made.score(answered("c", "x"))
    np.testing.assert_allclose(scores.score_B, [2.0, -0.25], rtol=0, atol=F32_ATOL)
    assert scores.metrics == {
        "reward/right": 0.5,
        "reward/right_unscored_ratio": 0.0,
        "reward/length": -0.25,
        "reward/length_unscored_ratio": 0.0,
    }
    assert answer_stats(scores, np.ones(2), rollout().mask_BR)["reward/right"] == 0.5


def test_clips_come_before_weights():
    made = combined(length={"weight": 2.0, "clip": [-0.25, 1.0], "reward": LENGTH})
    assert made.score(answered(None, None)).score_B.tolist() == [0.0, -0.5]


def test_a_missing_part():
    required = {"right": {"reward": RIGHT}, "length": {"reward": LENGTH}}
    assert combined(**required).score(answered("c", None)).scored_B.tolist() == [True, False]
    optional = required | {"right": {"reward": RIGHT, "required": False}}
    scores = combined(**optional).score(answered("c", None))
    # the length alone stands in for both: a weight of 2
    np.testing.assert_allclose(scores.score_B, [1.0, -1.0], rtol=0, atol=F32_ATOL)
    assert scores.metrics["reward/right_unscored_ratio"] == 0.5


def test_no_answer_has_all_it_needs():
    made = combined(right={"reward": RIGHT}, other={"reward": RIGHT | {"extract": "x"}})
    with pytest.raises(UserError, match=r"stages\.p\.reward\.of\.right\.reward: expected a score for at least one"):
        made.score(answered(None, None))


class Halves:
    """Scores steps; the rows in turn miss a score."""

    def __init__(self, config, stage):
        self.row = 0 if config.kind == "first_row" else 1

    def score(self, rollout):
        scored = np.arange(2) == self.row
        tokens = rollout.mask_BR * scored[:, None] * 0.5
        return Scores(tokens.sum(axis=1), scored, tokens.astype(np.float32))


@pytest.fixture
def halves(monkeypatch):
    monkeypatch.setattr(REWARDS, "_entries", dict(REWARDS._entries))
    for name in ("first_row", "second_row"):
        REWARDS.register(name)(Halves)


def test_parts_that_miss_different_answers_are_told(halves):
    made = combined(a={"reward": {"kind": "first_row"}}, b={"reward": {"kind": "second_row"}})
    with pytest.raises(UserError, match="Unscored by part: a 1, b 1"):
        made.score(answered("c", "d"))


def test_scores_of_steps_are_weighed_too(halves):
    made = combined(a={"reward": {"kind": "first_row"}, "weight": 3.0}, right={"reward": RIGHT})
    scores = made.score(answered("c", "d"))
    assert scores.scored_B.tolist() == [True, False]
    assert scores.token_score_BR[0].tolist() == [1.5, 1.5, 0.0]
    np.testing.assert_allclose(scores.score_B[0], 4.0, atol=F32_ATOL)
    np.testing.assert_allclose(scores.final_score_B[0], 1.0, atol=F32_ATOL)
    with pytest.raises(UserError, match=r"reward\.of\.a\.clip: expected null because the part scores steps"):
        combined(a={"reward": {"kind": "first_row"}, "clip": [0.0, 1.0]}).score(answered("c", "d"))


def test_a_combination_may_be_a_part():
    inner = {"kind": "combine", "of": {"x": {"reward": RIGHT}}}
    made = combined(outer={"weight": 3.0, "reward": inner})
    assert isinstance(made, CombinedReward)
    scores = made.score(answered("c", "x"))
    assert scores.score_B.tolist() == [3.0, 0.0]
    assert scores.metrics["reward/outer/x"] == 0.5


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"weight": 0.0, "reward": RIGHT}, "expected a weight other than 0, got 0"),
        ({"clip": [1.0, 1.0], "reward": RIGHT}, r"expected \[low, high\] with low < high"),
        ({"reward": {"kind": "exact_mtch"}}, "Did you mean `exact_match`"),
        ({}, "Field required|field required"),
    ],
)
def test_wrong_options(part, message):
    with pytest.raises(ValidationError, match=message):
        decode({"kind": "combine", "of": {"a": part}})
    with pytest.raises(ValidationError):
        decode({"kind": "combine", "of": {}})
