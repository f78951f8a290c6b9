"""A place to write recipes in, and the problems found in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmstack.config.load import load_recipe
from llmstack.errors import ConfigError, Problem

SHORT = """\
defaults:
  - /model: tiny_llama
  - /tokenizer: bpe
  - /optim: adamw
  - /parallel: single
  - /stage@stages.base: pretrain
  - /stage@stages.sft: sft
  - _self_
name: short
seed: 1
stages:
  base:
    data: {source: stdlib_docs, split: train}
    eval_data: {source: stdlib_docs, split: eval}
    budget: 2M tokens
  sft:
    init_from: base
    data: {source: stdlib_summaries, split: train}
    eval_data: {source: stdlib_summaries, split: eval}
    budget: 2 epochs
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file into the working directory of the test and gives its name."""
    monkeypatch.chdir(tmp_path)

    def put(text: str = SHORT, name: str = "mine.yaml") -> str:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    return put


@pytest.fixture
def problems_in():
    """Loads a recipe that must be refused and gives its problems by dotted path."""

    def find(recipe: str, *overrides: str) -> dict[str, Problem]:
        with pytest.raises(ConfigError) as caught:
            load_recipe(recipe, overrides)
        paths = [problem.path for problem in caught.value.problems]
        assert len(paths) == len(set(paths)), f"a path is reported twice: {paths}"
        return {problem.path: problem for problem in caught.value.problems}

    return find
