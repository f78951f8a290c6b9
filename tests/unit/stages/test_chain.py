from __future__ import annotations

import functools
import sys
from types import ModuleType, SimpleNamespace

import pytest

from llmstack.config.load import load_recipe
from llmstack.config.model import ModelFolderConfig
from llmstack.config.ppo import PpoConfig
from llmstack.errors import UserError
from llmstack.registry import REWARDS, STAGES
from llmstack.stages import chain
from llmstack.stages.chain import _functions, _plugin_parts, model_refs, run_recipe, sized_model, stage_model
from tests.helpers.stages import causal_folder, model_config, tokenizer


@pytest.fixture(scope="module")
def quickstart():
    return load_recipe("quickstart")


def test_every_option_that_names_a_model_is_found(quickstart):
    stages = quickstart.resolved["stages"]
    named = {name: model_refs(type(quickstart.config.stages[name]), stages[name]) for name in stages}
    assert named["base"] == [] and named["sft"] == ["base"] and named["rm"] == ["sft"]
    assert set(named["policy"]) == {"sft", "rm"}


def test_the_vocabulary_is_the_tokenizers_unless_larger():
    size = tokenizer().vocab_size
    assert sized_model(model_config(vocab_size=None), tokenizer()).vocab_size == size
    assert sized_model(model_config(vocab_size=size + 5), tokenizer()).vocab_size == size + 5
    with pytest.raises(UserError, match=rf"model.vocab_size: expected at least {size}"):
        sized_model(model_config(vocab_size=size - 1), tokenizer())


def test_a_stage_may_have_sizes_of_its_own():
    shared, size = model_config(), tokenizer().vocab_size
    assert stage_model("base", SimpleNamespace(model=None), shared, tokenizer()) is shared
    own = SimpleNamespace(model=model_config(num_hidden_layers=2, vocab_size=None))
    assert stage_model("base", own, shared, tokenizer()) == model_config(num_hidden_layers=2, vocab_size=size)
    small = SimpleNamespace(model=model_config(vocab_size=size - 1))
    with pytest.raises(UserError, match=rf"stages.base.model.vocab_size: expected at least {size}"):
        stage_model("base", small, shared, tokenizer())


@pytest.mark.parametrize("provider", ["native", "mindformers"])
def test_a_model_folder_keeps_the_provider_beside_it(tmp_path, provider):
    folder = causal_folder(tmp_path / "model")
    beside = ModelFolderConfig.model_validate({"from": str(folder), "provider": provider})
    found = chain.model_config(SimpleNamespace(model=beside))
    assert found == model_config(provider=provider)
    assert chain.model_config(SimpleNamespace(model=found)) is found


def test_parts_of_plugins_count_and_built_ins_do_not(quickstart):
    @REWARDS.register("chain_test_reward")
    def chain_test_reward(batch):
        """Nothing."""

    options = {**quickstart.resolved["stages"]["policy"], "yardsticks": {"mine": {"kind": "chain_test_reward"}}}
    assert list(_plugin_parts(options)) == [chain_test_reward]
    assert list(_plugin_parts(quickstart.resolved["stages"]["sft"])) == []
    assert "sft" in STAGES


def test_a_function_named_by_its_address_counts(quickstart, monkeypatch):
    module = ModuleType("chain_test_functions")

    def reward(batch):
        return []

    module.reward = functools.wraps(reward)(lambda batch: [])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    part = {"reward": {"kind": "function", "function": "chain_test_functions:reward"}}
    options = {**quickstart.resolved["stages"]["policy"], "reward": {"kind": "combine", "of": {"a": part}}}
    assert list(_functions(PpoConfig, options)) == [reward]


def test_a_stage_to_stop_after_must_exist(quickstart):
    with pytest.raises(UserError, match="--stage: expected one of base, sft, rm, policy, got 'rn'"):
        run_recipe(quickstart, until="rn")
