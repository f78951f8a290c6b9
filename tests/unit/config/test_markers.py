from __future__ import annotations

from typing import get_args

from llmstack.config import markers
from llmstack.config.ppo import CriticConfig, PpoConfig
from llmstack.config.rewards import ModelRewardConfig
from llmstack.config.walk import visit


def test_each_kind_of_reference_says_what_fits():
    assert get_args(markers.LanguageModelRef)[1].accepts == ("language_model",)
    assert get_args(markers.RewardModelRef)[1].accepts == ("reward_model",)
    assert set(get_args(markers.AnyModelRef)[1].accepts) == {"language_model", "reward_model"}


def test_the_built_in_references_are_marked():
    def marked(model, tree):
        return [seen.path for seen in visit(model, tree) if any(isinstance(m, markers.ModelRef) for m in seen.marks)]

    assert marked(ModelRewardConfig, {"kind": "model", "from": "a"}) == ["from"]
    assert marked(CriticConfig, {"init_from": "a"}) == ["init_from"]
    policy = {
        "init_from": "a",
        "reference": "a",
        "reward": {"kind": "model", "from": "b"},
        "critic": {"init_from": "c"},
    }
    assert sorted(marked(PpoConfig, policy)) == ["critic.init_from", "init_from", "reference", "reward.from"]
