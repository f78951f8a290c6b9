from __future__ import annotations

from pathlib import Path

import pytest

from llmstack.config.compose import compose_recipe
from llmstack.config.overrides import hydra_arguments, is_group, is_shadowed, parse_overrides, record_overrides
from llmstack.config.paths import configs_folder, find_recipe
from llmstack.config.provenance import Origins
from llmstack.errors import ConfigError

ROOTS = [Path("/recipes"), configs_folder()]


def only_problem(recipe: str, *overrides: str):
    with pytest.raises(ConfigError) as caught:
        compose_recipe(find_recipe(recipe), overrides)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "picks"),
    [("model=tiny_llama", True), ("optim@stages.base.optim=adamw", True), ("~model", True), ("seed=1", False)]
    + [("model={a: 1}", False), ("model.hidden_size=8", False), ("model=[1]", False)],
)
def test_a_group_choice_is_told_from_a_value(text, picks):
    assert is_group(parse_overrides([text])[0], ROOTS) == picks


def test_a_plain_value_may_reach_any_key_and_the_rest_stays():
    parsed = parse_overrides(["seed=1", "+a=1", "++b=1", "~c", "model=tiny_llama", "hydra.searchpath=[x]"])
    assert hydra_arguments(parsed, ROOTS) == [
        "++seed=1",
        "+a=1",
        "++b=1",
        "~c",
        "model=tiny_llama",
        f"hydra.searchpath=['{configs_folder()}']",
    ]


def test_what_was_set_and_deleted_is_recorded():
    origins = Origins()
    origins.add_override("c", 1)
    parsed = parse_overrides(["seed=1", "a={b: 1}", "~c", "model=tiny_llama", "hydra.searchpath=[x]"])
    record_overrides(origins, parsed, ROOTS)
    assert origins.get("seed") == origins.get("a.b") == "command line"
    assert origins.get("c") is None
    assert origins.get("model") is None and origins.get("hydra.searchpath") is None


@pytest.mark.parametrize(
    ("override", "path", "words"),
    [
        ("seed", "seed", "expected key=value, got 'seed'"),
        ("a=[1", "a", "expected key=value, got 'a=[1'"),
        ("seed=1,2", "seed", "a comma makes a sweep"),
        ("hydra.run.dir=x", "hydra.run.dir", "only hydra.searchpath has an effect"),
        ("+seed=1", "seed", "An item is already at 'seed'"),
        ("~nothing", "nothing", "'nothing' does not exist"),
        ("model=tiny_lama", "model", "Did you mean `tiny_llama`?"),
        ("parallel=-1", "parallel", "expected an option of the group (ascend, dp2_tp4,"),
        ("model=null", "model", "expected an option of the group (llama_7b, qwen2_0_5b,"),
        ("hydra.searchpath=[nowhere]", "hydra.searchpath", "expected an existing folder, got 'nowhere'"),
    ],
)
def test_a_bad_override_is_named(write, override, path, words):
    problem = only_problem(write(), override)
    assert problem.path == path
    assert words in problem.message
    assert problem.where == "command line"


def test_all_unreadable_overrides_are_reported():
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["a=[1", "fine=1", "b"])
    assert [problem.path for problem in caught.value.problems] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "shadowed"),
    [("out=x", True), ("model=x", False), ("deep=x/y", False), ("seed=1", False), ("+out=x", False), ("~out", False)],
)
def test_a_folder_without_options_is_told_from_a_group(tmp_path, text, shadowed):
    for name in ("out/sub/file.txt", "model/x.yaml", "deep/x/y.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    assert is_shadowed(parse_overrides([text])[0], [tmp_path]) is shadowed
