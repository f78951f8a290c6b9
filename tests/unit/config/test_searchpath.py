from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from llmstack.config.paths import configs_folder
from llmstack.config.searchpath import search_roots
from llmstack.errors import ConfigError


def roots(recipe: str, *overrides: str) -> list[Path]:
    return search_roots(Path(recipe).resolve(), OverridesParser.create().parse_overrides(list(overrides)))


def test_the_recipe_folder_is_strongest_and_the_shipped_groups_weakest(write):
    assert roots(write()) == [Path.cwd(), configs_folder()]


def test_entries_of_the_recipe_count_from_its_folder(write):
    Path("lab/groups").mkdir(parents=True)
    Path("other").mkdir()
    recipe = write("hydra:\n  searchpath:\n    - groups\n    - file://../other\n", "lab/mine.yaml")
    assert roots(recipe) == [
        Path("lab").resolve(),
        Path("lab/groups").resolve(),
        Path("other").resolve(),
        configs_folder(),
    ]


def test_the_command_line_replaces_those_of_the_recipe(write):
    Path("other").mkdir()
    recipe = write("hydra: {searchpath: [nowhere]}\n")
    assert roots(recipe, "hydra.searchpath=[other]")[1] == Path("other").resolve()
    assert roots(recipe, "hydra.searchpath=other")[1] == Path("other").resolve()


def test_a_package_can_hold_groups(write):
    folder = roots(write("hydra: {searchpath: ['pkg://llmstack.config']}\n"))[1]
    assert (folder / "searchpath.py").is_file()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "hydra: {searchpath: [nowhere]}\n",
            r"hydra.searchpath: expected an existing folder, got 'nowhere'.*mine.yaml:1",
        ),
        ("hydra: {searchpath: ['pkg://no_such.package']}\n", "expected an existing folder"),
        ("hydra: {searchpath: ['pkg://no_such']}\n", "expected an existing folder"),
        ("hydra: {searchpath: groups}\n", "expected a list of folders"),
        ("hydra: {}\n", "expected a list of folders"),
        ("hydra: 5\n", "expected only `searchpath`, got no mapping"),
        ("hydra: {job: {chdir: true}}\n", "expected only `searchpath`, got job"),
    ],
)
def test_anything_else_is_refused(write, text, words):
    with pytest.raises(ConfigError, match=words):
        roots(write(text))
