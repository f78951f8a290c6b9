"""One tiny language model and one tiny reward model, in folders and loaded."""

from __future__ import annotations

import pytest

from llmstack.evaluation.loading import load_language_model, load_reward_model
from tests.helpers.stages import causal_folder, scalar_folder, tokenizer


@pytest.fixture(scope="package")
def language_folder(tmp_path_factory):
    path = causal_folder(tmp_path_factory.mktemp("models") / "causal")
    tokenizer().save(path)
    return path


@pytest.fixture(scope="package")
def reward_folder(tmp_path_factory):
    path = scalar_folder(tmp_path_factory.mktemp("models") / "scalar")
    tokenizer().save(path)
    return path


@pytest.fixture(scope="package")
def language(language_folder):
    return load_language_model(language_folder)


@pytest.fixture(scope="package")
def reward(reward_folder):
    return load_reward_model(reward_folder)
