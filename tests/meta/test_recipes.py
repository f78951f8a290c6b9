"""Every shipped YAML file is composed and decoded by the real loader, and each of its keys is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from llmstack.config.load import load_recipe
from llmstack.config.paths import shipped_recipes
from llmstack.config.yamlfiles import read_node
from tests.meta.source import ROOT

RECIPES = sorted((ROOT / "recipes").rglob("*.yaml"))
GROUPS = sorted((ROOT / "configs").rglob("*.yaml"))
NUM_RECIPES = 11
NUM_GROUPS = 29
BASE = ROOT / "configs" / "recipe.yaml"
CARRIER = "quickstart"
"""The recipe into which each group is put to be decoded, unless it is that of a stage kind only others have."""

CARRIERS = {
    ("hardware", "ascend_910b"): "cluster_7b_8",
    ("hardware", "ascend_910c"): "cluster_7b_8",
    ("model", "qwen2_72b"): "cluster_72b_128k",
    ("parallel", "dp8"): "cluster_7b_8",
    ("parallel", "dp2_tp4"): "cluster_7b_8",
    ("parallel", "dp8_tp8"): "cluster_7b_64",
    ("parallel", "dp4_tp8_pp4"): "cluster_32b_128",
    ("parallel", "dp2_tp8_cp8_pp2"): "cluster_72b_128k",
}
"""The recipe for a group that does not fit into that one: a mesh has to divide it, a layout needs devices."""

HERE = ROOT / "tests" / "meta" / "model_folder"
LEFT_OPEN = {
    "smollm2_gsm8k": [
        f"model.from={HERE}",
        *(f"stages.sft.{data}.path={Path(__file__)}" for data in ("data", "eval_data")),
    ],
    "blend_anneal": [
        f"{data}.of.{part}.path={Path(__file__)}"
        for data in ("tokenizer.data", "stages.base.eval_data")
        for part in ("general", "domain")
    ],
}
"""What a recipe leaves to the command line."""


def test_none_is_overlooked():
    assert len(RECIPES) == NUM_RECIPES == len(shipped_recipes())
    assert len(GROUPS) == NUM_GROUPS
    others = [path for folder in ("recipes", "configs") for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert sorted(others) == sorted([*RECIPES, *GROUPS])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_each_recipe_decodes(path):
    loaded = load_recipe(str(path), LEFT_OPEN.get(path.stem, []))
    assert loaded.config.name == path.stem
    assert loaded.path == path


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_group_decodes(path, monkeypatch):
    monkeypatch.chdir(ROOT)  # origins are shown from the working directory
    if path == BASE:
        assert load_recipe(CARRIER).origins["run_dir"].startswith("configs/recipe.yaml")
        return
    carrier, overrides, prefix = choose(path)
    origins = load_recipe(carrier, overrides).origins
    used = {key for key, where in origins.items() if where.startswith(f"configs/{path.parent.name}/{path.name}:")}
    assert used, f"nothing of {path} arrives in the recipe"
    assert all(key.startswith(prefix) for key in used)


def choose(path: Path) -> tuple[str, list[str], str]:
    """A recipe, the overrides that put a group's option into it, and the path at which it arrives."""
    group = path.parent.name
    if group == "lora":
        return CARRIER, [f"+lora@stages.sft={path.stem}"], "stages.sft."
    if group != "stage":
        return CARRIERS.get((group, path.stem), CARRIER), [f"{group}={path.stem}"], f"{group}."
    kind = yaml.safe_load(path.read_text(encoding="utf-8"))["kind"]
    for carrier in (CARRIER, *(recipe.stem for recipe in RECIPES)):
        stages = load_recipe(carrier, LEFT_OPEN.get(carrier, [])).config.stages
        for name in (name for name, stage in stages.items() if stage.kind == kind):
            return carrier, [f"stage@stages.{name}={path.stem}", *LEFT_OPEN.get(carrier, [])], f"stages.{name}."
    raise AssertionError(f"no shipped recipe has a stage of kind {kind}")


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_key_has_a_comment_above_it(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = [f"{path.name}:{number + 1}" for number in key_lines(read_node(path)) if not is_comment(lines, number - 1)]
    assert bare == []


@pytest.mark.parametrize("path", [*RECIPES, *GROUPS], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_file_opens_with_what_it_is(path):
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    assert first.startswith("# ") and len(first) > len("# ")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_each_top_key_and_stage_of_a_recipe_has_a_comment_above_it(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    root = read_node(path)
    stages = next(value for key, value in root.value if key.value == "stages")
    keys = [key for key, _ in (*root.value, *stages.value)]
    assert [key.value for key in keys if not is_comment(lines, key.start_mark.line - 1)] == []


def key_lines(node: yaml.Node) -> list[int]:
    """The lines of block keys; a mapping written in braces on one line is explained by the comment of its key."""
    found = []
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        for key, value in node.value:
            found += [key.start_mark.line, *key_lines(value)]
    return found


def is_comment(lines: list[str], number: int) -> bool:
    return number >= 0 and lines[number].lstrip().startswith("#")
