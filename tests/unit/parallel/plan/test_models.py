from __future__ import annotations

import pytest

from llmstack.config.load import load_recipe
from llmstack.errors import UserError
from llmstack.parallel.plan.models import Models
from tests.helpers.stages import causal_folder, model_config


def models(*overrides):
    return Models(load_recipe("quickstart", overrides).config)


def test_a_stage_has_the_sizes_its_chain_began_with():
    found = models("+stages.base.model.num_hidden_layers=7")
    for name in ("base", "sft", "rm", "policy"):
        source = None if name == "base" else "sft"
        assert found.of_stage(name)(source).num_hidden_layers == 7
    assert list(found.all()) == ["stages.base.model"]


def test_a_folder_gives_its_own_sizes(tmp_path):
    folder = causal_folder(tmp_path / "model")
    found = models("~stages.base", f"stages.sft.init_from={folder}")
    expected = model_config()
    assert found.of_stage("policy")("sft").hidden_size == expected.hidden_size
    assert list(found.all()) == [str(folder)]


def test_an_open_vocabulary_is_the_tokenizers():
    assert models("model.vocab_size=null").of_stage("base")(None).vocab_size == 2048


def test_a_vocabulary_that_nobody_knows_is_asked_for(tmp_path):
    folder = causal_folder(tmp_path / "model")
    found = models(
        "model.vocab_size=null", "~tokenizer.data", "~tokenizer.vocab_size", "tokenizer.kind=folder",
        f"+tokenizer.path={folder}",
    )  # fmt: skip
    with pytest.raises(UserError, match=r"model.vocab_size: expected a number to plan with"):
        found.of_stage("base")(None)
