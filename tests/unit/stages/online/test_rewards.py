from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from llmstack.config.rewards import AnyReward, ModelRewardConfig, RewardSourceConfig
from llmstack.errors import UserError
from llmstack.registry import REWARDS
from llmstack.stages.online.rewards import FunctionReward, ModelReward, make_reward
from tests.unit.stages.online.test_rollout import rollout


def test_a_function_is_checked():
    assert FunctionReward(lambda batch: [1.0, None], "reward").score(rollout()).scored_B.tolist() == [True, False]
    with pytest.raises(UserError, match="stages.p.reward: expected 2 scores"):
        FunctionReward(lambda batch: [1.0], "stages.p.reward").score(rollout())


def test_a_registered_function_scores_the_texts():
    reward = make_reward(RewardSourceConfig(kind="pep257_style"), None, "reward")
    assert isinstance(reward, FunctionReward)
    assert reward.score(rollout()).score_B.tolist() == [0.0, 0.0]


def test_the_model_reward_is_a_class():
    assert REWARDS.get("model") is ModelReward
    assert ModelRewardConfig.model_validate({"kind": "model", "from": "rm"}).from_ == "rm"


def test_a_rule_has_its_options_and_its_place():
    options = TypeAdapter(AnyReward).validate_python({"kind": "format_regex", "pattern": "c"})
    reward = make_reward(options, None, "stages.p.reward")
    scores = reward.score(rollout())
    assert scores.score_B.tolist() == [1.0, 0.0]
    assert scores.metrics == {"reward/pattern_timeouts": 0.0}
    assert reward._function.where == "stages.p.reward"
