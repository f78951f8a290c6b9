from __future__ import annotations

from pydantic import TypeAdapter

from llmstack.config.rewards import AnyReward, ModelRewardConfig, RewardSourceConfig


def test_options_are_of_the_class_the_kind_names():
    decode = TypeAdapter(AnyReward).validate_python
    model = decode({"kind": "model", "from": "rm"})
    assert isinstance(model, ModelRewardConfig) and model.from_ == "rm"
    assert type(decode({"kind": "pep257_style"})) is RewardSourceConfig
