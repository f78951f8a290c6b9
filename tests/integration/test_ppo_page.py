"""The examples of docs/ppo.md are options that a recipe takes, and no option is left out."""

from __future__ import annotations

import re

import pytest
import yaml

from llmstack.config.load import load_recipe
from llmstack.config.online import KlConfig
from llmstack.config.ppo import CriticConfig, PpoConfig, PretrainingConfig, ScoresConfig
from llmstack.config.stages import StageConfig
from tests.meta.source import ROOT

PAGE = (ROOT / "docs" / "ppo.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "recipes" / "quickstart.yaml").read_text(encoding="utf-8")


def example(name):
    (text,) = re.findall(rf"<!-- {name} -->\n```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    return yaml.safe_load(text)


def stage(folder, options):
    """The quickstart with another last stage, as it is decoded."""
    tree = yaml.safe_load(QUICKSTART)
    tree["stages"]["policy"] = options
    path = folder / "page.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return load_recipe(str(path)).config.stages["policy"]


def test_the_recipe_is_the_quickstarts(tmp_path):
    config = stage(tmp_path, example("stage")["policy"])
    assert isinstance(config, PpoConfig)
    assert (config.response_len, config.batch_rows, config.kl.beta, config.critic.init_from) == (32, 64, 0.05, "rm")


def test_text_can_be_mixed_in(tmp_path):
    config = stage(tmp_path, example("stage")["policy"] | example("pretraining"))
    assert isinstance(config.pretraining, PretrainingConfig) and config.longest_row == 256


@pytest.mark.parametrize("model", [PpoConfig, KlConfig, CriticConfig, ScoresConfig, PretrainingConfig])
def test_every_option_is_on_the_page(model):
    shared = set(StageConfig.model_fields) - {"accumulate", "batch_rows", "lora", "init_from", "budget"}
    missing = [name for name in model.model_fields if name not in shared and not re.search(rf"\b{name}\b", PAGE)]
    assert missing == []
