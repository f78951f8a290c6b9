"""The folders in which configuration groups are looked up."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import yaml
from hydra.core.override_parser.types import Override

from llmstack.config.overrides import SEARCH_PATH
from llmstack.config.paths import configs_folder, display
from llmstack.config.provenance import COMMAND_LINE
from llmstack.config.yamlfiles import child, read_node
from llmstack.errors import ConfigError, Problem


def search_roots(recipe: Path, overrides: Sequence[Override]) -> list[Path]:
    """Lists the folders that hold groups, the strongest first.

    The recipe's own folder comes first, then the entries of ``hydra.searchpath`` (of the command line if given there,
    else of the recipe), then the shipped ``configs/``. Relative entries of the recipe count from the recipe's folder,
    those of the command line from the working directory.

    Args:
        recipe: absolute path of the recipe.
        overrides: the parsed command line.

    Returns:
        Absolute, existing folders.

    Raises:
        ConfigError: an entry is not a folder, or the recipe's ``hydra`` holds anything else.
    """
    given = [item for item in overrides if item.key_or_group == SEARCH_PATH]
    entries: list[tuple[str, Path, str]]
    if given:
        value = given[-1].value()
        texts = [str(text) for text in value] if isinstance(value, list) else [str(value)]
        entries = [(text, Path.cwd(), COMMAND_LINE) for text in texts]
    else:
        entries = _entries_of_recipe(recipe)
    roots, problems = [recipe.parent], []
    for text, start, where in entries:
        root = _folder(text, start)
        if root is not None and root.is_dir():
            roots.append(root)
        else:
            problems.append(Problem(SEARCH_PATH, f"expected an existing folder, got {text!r}. Check the path.", where))
    if problems:
        raise ConfigError(problems)
    return [*roots, configs_folder()]


def _entries_of_recipe(recipe: Path) -> list[tuple[str, Path, str]]:
    hydra = child(read_node(recipe), "hydra")
    if hydra is None:
        return []
    line = f"{display(recipe)}:{hydra.start_mark.line + 1}"
    is_mapping = isinstance(hydra, yaml.MappingNode)
    others = [str(key.value) for key, _ in hydra.value if key.value != "searchpath"] if is_mapping else ["no mapping"]
    if others:
        got = ", ".join(others)
        message = f"expected only `searchpath`, got {got}. Hydra composes recipes and runs nothing here; remove it."
        raise ConfigError([Problem("hydra", message, line)])
    searchpath = child(hydra, "searchpath")
    if not isinstance(searchpath, yaml.SequenceNode):
        raise ConfigError(
            [Problem(SEARCH_PATH, "expected a list of folders, got another type. Write [folder, ...].", line)]
        )
    return [
        (str(item.value), recipe.parent, f"{display(recipe)}:{item.start_mark.line + 1}") for item in searchpath.value
    ]


def _folder(text: str, start: Path) -> Path | None:
    """``pkg://package.module``, ``file://path`` or a plain path as a folder; None when the package is not there."""
    if text.startswith("pkg://"):
        try:
            spec = importlib.util.find_spec(text.removeprefix("pkg://").replace("/", "."))
        except ModuleNotFoundError:
            return None
        locations = list(spec.submodule_search_locations or []) if spec else []
        return Path(locations[0]) if locations else None
    return (start / Path(text.removeprefix("file://")).expanduser()).resolve()
