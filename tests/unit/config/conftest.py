"""A place to write recipes in, and the problems found in one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
tokenizer: {data: {source: stdlib_docs, split: train}}
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


Case = tuple[str, str, str]
"""An override of the quickstart, the path it must be refused at, words of the message."""


def rounds(cases: list[Case], scope: Callable[[str], str]) -> dict[str, tuple[str, ...]]:
    """Groups overrides that cannot disturb each other, so that one load shows the problems of many.

    Args:
        cases: the cases.
        scope: key -> dotted path within which two overrides disturb each other.

    Returns:
        Override -> all overrides of its round, itself included.
    """
    groups: list[list[str]] = []
    for override, _, _ in cases:
        mine = scope(override.partition("=")[0].lstrip("+"))
        for group in groups:
            scopes = [scope(other.partition("=")[0].lstrip("+")) for other in group]
            if not any(f"{mine}.".startswith(f"{other}.") or f"{other}.".startswith(f"{mine}.") for other in scopes):
                group.append(override)
                break
        else:
            groups.append([override])
    return {override: tuple(group) for group in groups for override in group}


@cache
def problems_of_round(overrides: tuple[str, ...]) -> dict[str, Problem]:
    """The problems of the quickstart with these overrides."""
    with pytest.raises(ConfigError) as caught:
        load_recipe("quickstart", overrides)
    return {problem.path: problem for problem in caught.value.problems}


def assert_refused(case: Case, cases: list[Case], scope: Callable[[str], str]) -> Problem:
    """Checks that a case's round is refused at exactly the paths of its cases, and gives the problem of this one."""
    override, path, words = case
    together = rounds(cases, scope)[override]
    found = problems_of_round(together)
    assert set(found) == {other_path for other, other_path, _ in cases if other in together}
    assert words in found[path].message
    return found[path]
