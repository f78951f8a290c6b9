from __future__ import annotations

from pydantic import TypeAdapter

from llmstack.config.rewards import AnyReward, ModelRewardConfig, RewardSourceConfig


def test_options_are_of_the_class_the_kind_names():
    decode = TypeAdapter(AnyReward).validate_python
    model = decode({"kind": "model", "from": "rm"})
    assert isinstance(model, ModelRewardConfig) and model.from_ == "rm"
    assert type(decode({"kind": "pep257_style"})) is RewardSourceConfig


def test_a_function_and_steps_have_arguments():
    decode = TypeAdapter(AnyReward).validate_python
    found = decode({"kind": "function", "function": "a:b", "arguments": {"x": [1]}})
    assert (found.function, found.arguments) == ("a:b", {"x": [1]})
    steps = decode({"kind": "steps", "function": "a:b"})
    assert (steps.split, steps.aggregate) == (r"\n\s*\n", "mean")
    combined = decode(
        {"kind": "combine", "of": {"a": {"clip": [0.0, 1.0], "reward": {"kind": "function", "function": "a:b"}}}}
    )
    assert combined.of["a"].clip == (0.0, 1.0) and combined.of["a"].required
