from __future__ import annotations

import pytest

from llmstack.config.compose import compose_recipe
from llmstack.config.compose_errors import readable_errors
from llmstack.config.paths import find_recipe
from llmstack.errors import ConfigError, UserError
from tests.unit.config.conftest import SHORT


def only_problem(recipe: str, *overrides: str):
    with pytest.raises(ConfigError) as caught:
        compose_recipe(find_recipe(recipe), overrides)
    (problem,) = caught.value.problems
    return problem


def test_a_missing_group_option_names_the_line_of_the_defaults(write):
    problem = only_problem(write(SHORT.replace("tiny_llama", "tiny_lama")))
    assert (problem.path, problem.where) == ("model", "mine.yaml:2")
    assert "expected an option of `model` (llama_7b, " in problem.message
    assert "tiny_llama), got 'tiny_lama'. Did you mean `tiny_llama`?" in problem.message


def test_a_missing_group_option_names_the_place_it_was_meant_for(write):
    problem = only_problem(write(SHORT.replace("  - _self_", "  - /lora@stages.base: nope\n  - _self_")))
    assert problem.path == "lora@stages.base" and problem.where.startswith("mine.yaml:")
    assert "expected an option of `lora` (dialogue, domain, preference, reasoning, rl), got 'nope'" in problem.message


def test_a_missing_group_names_the_line_of_the_defaults(write):
    problem = only_problem(write(SHORT.replace("/optim: adamw", "/optimizer: adamw")))
    assert (problem.path, problem.where) == ("optimizer", "mine.yaml:4")


def test_a_syntax_error_names_its_line(write):
    problem = only_problem(write("name: x\nseed: [1\nother: 2\n"))
    assert problem.path.startswith("mine.yaml:")
    assert "syntax error" in problem.message


def test_a_syntax_error_in_a_group_names_that_file(write):
    write("a: 1\na: 2\n", "model/twice.yaml")
    problem = only_problem(write(SHORT.replace("tiny_llama", "twice")))
    assert problem.path == "model/twice.yaml:2"
    assert "duplicate key a" in problem.message


def test_only_the_search_path_of_hydra_may_be_set(write):
    problem = only_problem(write("hydra: {run: {dir: x}}\nname: x\n"))
    assert (problem.path, problem.where) == ("hydra", "mine.yaml:1")


@pytest.mark.parametrize(
    ("text", "path", "where", "words"),
    [
        ("defaults: model\nname: x\n", "defaults", "mine.yaml:1", "defaults must be a list"),
        ("name: x\ndefaults: [5]\n", "defaults", "mine.yaml:2", "Unsupported type in defaults"),
        ("name: x\ndefaults:\n  - {a: b, c: d}\n", "defaults", "mine.yaml:3", "Too many keys"),
        ("name: x\ndefaults: [/mine]\n", "defaults", "mine.yaml:2", "defaults lists that include each other"),
        ("seed: 1\nname: '${'\n", "name", "mine.yaml:2", "no viable alternative"),
        ("a:\n  b: !!set {x, y}\n", "a.b", "mine.yaml:2", "not a supported primitive type"),
        ("null: 1\n", "mine.yaml", "", "Incompatible key type"),
    ],
)
def test_anything_else_is_told_in_hydras_words_with_the_line(write, text, path, where, words):
    problem = only_problem(write(text))
    assert (problem.path, problem.where) == (path, where)
    assert words in problem.message and "full_key" not in problem.message and "\n" not in problem.message


def test_a_user_error_passes_and_a_fault_is_not_hidden(write, tmp_path):
    with pytest.raises(UserError, match="^mine$"), readable_errors(tmp_path, [], []):
        raise UserError("mine")
    with pytest.raises(ZeroDivisionError), readable_errors(tmp_path, [], []):
        1 / 0  # noqa: B018
