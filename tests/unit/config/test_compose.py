from __future__ import annotations

from pathlib import Path

import pytest

from llmstack.config.compose import compose_recipe
from llmstack.config.paths import find_recipe
from tests.unit.config.conftest import SHORT


def compose(recipe: str, *overrides: str):
    return compose_recipe(find_recipe(recipe), overrides)


def test_the_recipe_wins_over_groups_and_the_command_line_over_both(write):
    recipe = write(SHORT.replace("seed: 1", "seed: 1\nmodel: {hidden_size: 8, head_dim: 2}"))
    tree = compose(recipe, "model.head_dim=4").tree
    assert (tree["model"]["hidden_size"], tree["model"]["head_dim"], tree["model"]["family"]) == (8, 4, "llama")


def test_a_recipe_without_defaults_is_only_itself_and_the_base(write):
    assert compose(write("name: alone\n")).tree == {"run_dir": "runs/alone", "plugins": [], "name": "alone"}


def test_an_empty_recipe_is_read(write):
    assert compose(write("name: x\n")).tree["name"] == "x"


def test_a_group_beside_the_recipe_comes_before_the_shipped_one(write):
    write("hidden_size: 6\n", "model/tiny_llama.yaml")
    composed = compose(write())
    assert composed.tree["model"] == {"hidden_size": 6}
    assert composed.origins.get("model.hidden_size") == "model/tiny_llama.yaml:1"


def test_the_search_path_counts_from_the_recipe_folder(write, monkeypatch):
    write("hidden_size: 6\n", "lab/groups/model/mine.yaml")
    recipe = write("hydra: {searchpath: [groups]}\n" + SHORT.replace("tiny_llama", "mine"), "lab/mine.yaml")
    composed = compose(recipe)
    assert composed.tree["model"] == {"hidden_size": 6}
    assert composed.origins.get("model.hidden_size") == "lab/groups/model/mine.yaml:1"
    assert "hydra" not in composed.tree


def test_a_group_can_be_chosen_on_the_command_line(write):
    write("hidden_size: 6\n", "groups/model/mine.yaml")
    composed = compose(write(), "model=mine", "hydra.searchpath=[groups]", "model.hidden_size=7")
    assert composed.tree["model"] == {"hidden_size": 7}
    assert composed.origins.get("model.hidden_size") == "command line"


def test_a_group_can_be_put_into_a_stage(write):
    tree = compose(write(), "+optim@stages.base.optim=adamw").tree
    assert tree["stages"]["base"]["optim"]["name"] == "adamw"


def test_a_whole_mapping_can_be_given(write):
    composed = compose(write(), "stages.base.data={source: text, path: a.txt}", "~stages.sft")
    assert composed.tree["stages"]["base"]["data"] == {"source": "text", "split": "train", "path": "a.txt"}
    assert list(composed.tree["stages"]) == ["base"]
    assert composed.origins.get("stages.base.data.path") == "command line"
    assert composed.origins.get("stages.sft.budget") is None


@pytest.mark.parametrize("folder", ["it's", "a b", "x=y,z"])
def test_folders_with_odd_names_are_found(write, folder):
    write("hidden_size: 6\n", f"{folder}/groups/model/mine.yaml")
    recipe = write("hydra: {searchpath: [groups]}\n" + SHORT.replace("tiny_llama", "mine"), f"{folder}/mine.yaml")
    assert compose(recipe).tree["model"] == {"hidden_size": 6}


def test_a_defaults_list_without_self_puts_the_recipe_last(write, recwarn):
    text = SHORT.replace("  - _self_\n", "").replace("seed: 1", "seed: 1\nmodel: {hidden_size: 8}")
    assert compose(write(text)).tree["model"]["hidden_size"] == 8
    assert list(recwarn) == []


def test_a_key_of_the_base_may_be_of_another_type(write):
    assert compose(write("name: x\nplugins: {a: 1}\n")).tree["plugins"] == {"a": 1}


def test_all_failing_interpolations_are_collected(write):
    composed = compose(write("a: ${x}\nb: {c: ['${oc.env:LLMSTACK_NOT_SET}', 2]}\nname: n\n"))
    assert [problem.path for problem in composed.problems] == ["a", "b.c.0"]
    assert composed.tree["b"] == {"c": [2]}
    assert composed.problems[1].where == "mine.yaml:2"


def test_a_scalar_where_a_group_is_merged_is_refused_or_replaced(write):
    tree = compose(write(SHORT.replace("seed: 1", "seed: 1\nmodel: 5"))).tree
    assert tree["model"] == 5


def test_composing_leaves_the_folder_as_it_was(write):
    recipe = write()
    compose(recipe)
    assert [path.name for path in Path().iterdir()] == ["mine.yaml"]
