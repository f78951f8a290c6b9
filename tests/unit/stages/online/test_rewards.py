from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import TypeAdapter

from llmstack.config.rewards import AnyReward, ModelRewardConfig, RewardSourceConfig
from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.models.score_statistics import ScoreStatistics, write_statistics
from llmstack.registry import REWARDS
from llmstack.stages.base import Stage
from llmstack.stages.online.rewards import FunctionReward, ModelReward, make_reward
from tests.helpers import stages as tiny
from tests.tolerances import F32_ATOL
from tests.unit.stages.online.test_rollout import rollout


def test_a_function_is_checked():
    assert FunctionReward(lambda batch: [1.0, None], "reward").score(rollout()).scored_B.tolist() == [True, False]
    with pytest.raises(UserError, match="stages.p.reward: expected 2 scores"):
        FunctionReward(lambda batch: [1.0], "stages.p.reward").score(rollout())


def test_a_function_that_scores_nothing_is_told_at_once_and_one_that_has_nothing_to_score_is_not():
    found = [[None, None]]
    reward = FunctionReward(lambda batch: found[-1], "stages.p.reward")
    with pytest.raises(UserError, match="stages.p.reward: expected a score for at least one of 2 answers"):
        reward.score(rollout())
    found.append([1.0, None])
    reward.score(rollout())
    found.append([None, None])
    assert reward.score(rollout()).num_unscored == 2


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


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A stage that can load one reward model."""
    folder = tiny.scalar_folder(tmp_path_factory.mktemp("rewards") / "rm")
    made = tiny.bare(Stage)(SimpleNamespace(longest_row=6), tiny.context({"rm": folder}))
    return made, folder


def model_reward(stage, **options):
    return make_reward(ModelRewardConfig.model_validate({"kind": "model", "from": "rm"} | options), stage, "stages.p.r")


def test_scores_of_a_model_and_the_same_normalised(stage):
    made, folder = stage
    with pytest.raises(UserError, match=r"stages\.p\.r\.normalise: expected a model with the mean and deviation"):
        model_reward(made, normalise=True)
    write_statistics(folder, ScoreStatistics(mean=0.5, std=0.25, answers=2))
    plain = model_reward(made).score(rollout())
    normal = model_reward(made, normalise=True).score(rollout())
    assert plain.scored_B.all()
    np.testing.assert_allclose(normal.score_B, (plain.score_B - 0.5) / 0.25, rtol=0, atol=F32_ATOL)


def test_a_model_with_another_tokenizer_is_refused(stage):
    made, folder = stage
    Tokenizer(*train_bpe(["one two three four five"] * 4, 278), CHATML).save(folder)
    with pytest.raises(UserError, match=r"stages\.p\.r\.from: expected the reward model .* the recipe's tokenizer"):
        model_reward(made)
    tiny.tokenizer().save(folder)
    assert model_reward(made) is not None
