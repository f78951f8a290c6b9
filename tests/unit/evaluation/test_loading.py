from __future__ import annotations

import json
import shutil

import pytest

from llmstack.errors import UserError
from llmstack.evaluation.loading import load_language_model, load_reward_model
from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from tests.helpers.stages import tokenizer


def test_a_folder_is_a_model_and_its_tokenizer(language, language_folder):
    assert isinstance(language.model, CausalLM)
    assert language.tokenizer.fingerprint() == tokenizer().fingerprint()
    assert (language.context, language.folder) == (64, language_folder)


def test_a_reward_model(reward):
    assert isinstance(reward.model, ScalarModel)


def test_each_kind_refuses_the_other(language_folder, reward_folder):
    with pytest.raises(UserError, match="expected a language model, got one that scores"):
        load_language_model(reward_folder)
    with pytest.raises(UserError, match="expected a model that scores, got a language model"):
        load_reward_model(language_folder)


def test_no_folder(tmp_path):
    with pytest.raises(UserError, match="expected a model folder, got none"):
        load_language_model(tmp_path / "nothing")


def test_a_tokenizer_of_another_model(language_folder, tmp_path):
    path = shutil.copytree(language_folder, tmp_path / "model")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
    with pytest.raises(UserError, match="at most the model's 100 ids, got one of"):
        load_language_model(path)
