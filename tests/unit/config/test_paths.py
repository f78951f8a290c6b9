from __future__ import annotations

from pathlib import Path

import pytest

import llmstack
from llmstack.config import paths
from llmstack.errors import UserError


def test_shipped_folders_are_there():
    assert (paths.configs_folder() / "recipe.yaml").is_file()
    assert paths.shipped_recipes()["quickstart"].is_file()


def test_packed_folders_are_preferred(tmp_path, monkeypatch):
    packed = tmp_path / "llmstack" / "_resources" / "configs"
    packed.mkdir(parents=True)
    monkeypatch.setattr(llmstack, "__file__", str(tmp_path / "llmstack" / "__init__.py"))
    assert paths.configs_folder() == packed
    assert paths.resource_folder("recipes") == tmp_path / "recipes"


def test_a_recipe_is_found_by_name_and_by_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert paths.find_recipe("quickstart") == paths.shipped_recipes()["quickstart"]
    Path("a.yaml").write_text("name: a\n", encoding="utf-8")
    assert paths.find_recipe("a.yaml") == tmp_path / "a.yaml"


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (
            "quickstrat",
            r"shipped recipe \(blend_anneal, .*quickstart.*\), got neither. Did you mean `quickstart`\?",
        ),
        ("no/such.yaml", "no/such.yaml: expected a recipe file"),
        ("folder", "expected a YAML file, got a folder"),
        ("a.yml", "expected a file whose name ends in .yaml, got 'a.yml'"),
    ],
)
def test_a_wrong_recipe_is_refused(tmp_path, monkeypatch, recipe, words):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("a.yml").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=words):
        paths.find_recipe(recipe)


def test_paths_are_shown_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert paths.display(tmp_path / "a" / "b.yaml") == "a/b.yaml"
    assert paths.display(Path("/elsewhere/b.yaml")) == "/elsewhere/b.yaml"
