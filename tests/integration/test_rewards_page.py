"""Every example of docs/rewards.md is a reward that a recipe takes, and most of them score answers here."""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace

import pytest
import yaml

from llmstack.config.load import load_recipe
from llmstack.errors import ConfigError
from llmstack.stages.online.rewards import make_reward
from tests.helpers import stages as tiny
from tests.meta.source import ROOT
from tests.unit.stages.online.test_steps import answers

PAGE = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"<!-- reward -->\n```yaml\n(.*?)```", PAGE, flags=re.DOTALL)]
MODULES = re.findall(r"<!-- file: (\w+)\.py -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL)


def names(reward):
    inner = [name for part in reward.get("of", {}).values() for name in names(part["reward"])]
    return [reward["kind"], *inner]


@pytest.fixture
def modules(tmp_path, monkeypatch):
    for name, source in MODULES:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name, _ in MODULES:
        sys.modules.pop(name, None)


QUICKSTART = (ROOT / "recipes" / "quickstart.yaml").read_text(encoding="utf-8")
ITS_REWARD = "reward: {kind: model, from: rm}"


def recipe(reward, folder):
    assert ITS_REWARD in QUICKSTART
    path = folder / "page.yaml"
    path.write_text(QUICKSTART.replace(ITS_REWARD, f"reward: {json.dumps(reward)}"), encoding="utf-8")
    return load_recipe(str(path))


def test_the_page_shows_every_kind():
    from llmstack.catalog import REWARDS

    shown = {name for example in EXAMPLES for name in names(example["reward"])} | {"pep257_style"}
    assert shown == {entry.name for entry in REWARDS}
    assert all(f"**{name}**" in PAGE for name in ("exact_match", "repetition", "pep257_style"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["reward"]["kind"])
def test_each_example_is_taken_by_a_recipe_and_scores(example, modules, tmp_path):
    config = recipe(example["reward"], tmp_path).config.stages["policy"].reward
    if {"model", "http"} & set(names(example["reward"])):
        return
    stage = SimpleNamespace(context=SimpleNamespace(tokenizer=tiny.tokenizer()))
    rolled, _ = answers("<think>a</think><answer>x</answer> red 2", "red\n\nblue 3")
    texts = rolled.texts
    rolled.texts.answers[:] = ["2", "2"]
    object.__setattr__(texts, "num_tokens", [9, 5])
    scores = make_reward(config, stage, "stages.policy.reward").score(rolled)
    assert scores.scored_B.all()


def test_a_function_that_is_not_there_is_found_by_check(modules, tmp_path):
    part = {"a": {"reward": {"kind": "function", "function": "word_rewards:breif"}}}
    with pytest.raises(ConfigError, match=r"stages\.policy\.reward\.of\.a\.reward\.function: .*Did you mean `brief`"):
        recipe({"kind": "combine", "of": part}, tmp_path)
