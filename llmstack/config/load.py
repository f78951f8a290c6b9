"""From a recipe's name to a checked, frozen configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from llmstack.config.checks import check
from llmstack.config.compose import compose_recipe
from llmstack.config.paths import display, find_recipe
from llmstack.config.problems import problems_of
from llmstack.config.provenance import DEFAULT, INHERITED, Origins
from llmstack.config.recipe import RecipeConfig
from llmstack.errors import ConfigError, Problem, UserError
from llmstack.plugins import load_plugins


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe that can be run.

    Attributes:
        config: the frozen configuration.
        resolved: the same as plain JSON-able data with every default filled in; it is itself a recipe.
        origins: dotted path of each leaf -> ``file:line``, ``command line``, ``default`` or ``inherited from <path>``.
        path: the recipe's file.
    """

    config: RecipeConfig
    resolved: dict[str, Any]
    origins: dict[str, str]
    path: Path


def load_recipe(recipe: str, overrides: Sequence[str] = ()) -> LoadedRecipe:
    """Composes, decodes and checks a recipe. Reads files, loads its plugins, writes nothing.

    Args:
        recipe: a path, or the name of a shipped recipe.
        overrides: ``key=value`` arguments in Hydra's grammar.

    Returns:
        The configuration with the origin of each value.

    Raises:
        UserError: there is no such recipe.
        ConfigError: something is wrong with it; carries every problem that could be found.
    """
    path = find_recipe(recipe)
    composed = compose_recipe(path, overrides)
    tree, origins = composed.tree, composed.origins
    problems = [*composed.problems, *plugin_problems(tree, path, origins)]
    _inherit_optim(tree, origins)
    _inherit_sizes(tree, origins)
    _inherit_model(tree, origins)
    config, found = _decode(tree, origins)
    failed = {problem.path for problem in problems}
    problems += [problem for problem in found if problem.path not in failed]
    problems += check(tree, origins)
    problems = _once(problems, "model.from")
    if problems or config is None:
        raise ConfigError([replace(problem, where=problem.where or display(path)) for problem in problems])
    resolved = config.model_dump(mode="json", by_alias=True)
    return LoadedRecipe(config, resolved, _leaf_origins(resolved, origins), path)


def plugin_problems(tree: Mapping[str, Any], path: Path, origins: Origins) -> list[Problem]:
    """Imports the plugins before anything is decoded, because they may register what the file names.

    Args:
        tree: the composed file.
        path: the file, beside which plugins are looked for first.
        origins: where its values came from.

    Returns:
        A problem for each one that cannot be imported.
    """
    names = tree.get("plugins")
    if not isinstance(names, list):
        return []
    problems = []
    for index, name in enumerate(names):
        if isinstance(name, str):
            try:
                load_plugins([name], folder=path.parent)
            except UserError as error:
                problems.append(Problem(f"plugins.{index}", str(error), origins.find(f"plugins.{index}")))
    return problems


def _inherit_optim(tree: Mapping[str, Any], origins: Origins) -> None:
    """Puts each stage's own ``optim`` keys on top of the recipe's."""
    shared, stages = tree.get("optim"), tree.get("stages")
    if not isinstance(shared, dict) or not isinstance(stages, dict):
        return
    for name, stage in stages.items():
        if isinstance(stage, dict) and isinstance(stage.setdefault("optim", {}), dict):
            _fill(stage["optim"], shared, f"stages.{name}.optim", "optim", origins)


def _inherit_sizes(tree: Mapping[str, Any], origins: Origins) -> None:
    """Puts the keys of a stage's own ``model``, if it has one, on top of the recipe's."""
    shared, stages = tree.get("model"), tree.get("stages")
    if not isinstance(shared, dict) or "from" in shared or not isinstance(stages, dict):
        return
    for name, stage in stages.items():
        if isinstance(stage, dict) and isinstance(stage.get("model"), dict):
            _fill(stage["model"], shared, f"stages.{name}.model", "model", origins)


def _inherit_model(tree: dict[str, Any], origins: Origins) -> None:
    """Lets stages without ``init_from``, and a recipe without ``tokenizer``, take those of ``model.from``."""
    model, stages = tree.get("model"), tree.get("stages")
    if not isinstance(model, dict) or (model and "from" not in model):
        return
    # a recipe that leaves the folder to the command line has no key here until it is given
    folder = model.get("from", "")
    if "tokenizer" not in tree:
        tree["tokenizer"] = {"kind": "folder", "path": folder}
        for key in ("kind", "path"):
            origins.inherit(f"tokenizer.{key}", "model.from")
    for name, stage in stages.items() if isinstance(stages, dict) else ():
        if isinstance(stage, dict) and stage.get("init_from") is None and stage.get("model") is None:
            stage["init_from"] = folder
            origins.inherit(f"stages.{name}.init_from", "model.from")


def _fill(own: dict[str, Any], shared: dict[str, Any], path: str, source: str, origins: Origins) -> None:
    for key, value in shared.items():
        below, above = f"{path}.{key}", f"{source}.{key}"
        if isinstance(value, dict) and isinstance(own.setdefault(key, {}), dict):
            _fill(own[key], value, below, above, origins)
        elif key not in own:
            own[key] = deepcopy(value)
            origins.inherit(below, above)


def _decode(tree: dict[str, Any], origins: Origins) -> tuple[RecipeConfig | None, list[Problem]]:
    try:
        return RecipeConfig.model_validate(tree), []
    except ValidationError as error:
        return None, _without_inherited(problems_of(error, RecipeConfig, tree, origins), origins)


def _without_inherited(problems: list[Problem], origins: Origins) -> list[Problem]:
    """What is wrong shows once: not again in stages that inherit it, nor where an interpolation leads."""
    paths = {problem.path for problem in problems}

    def repeats(problem: Problem, group: str) -> bool:
        target = origins.left_open(problem.path)
        if target is not None and target != problem.path and target in paths:
            return True
        head, _, rest = problem.path.partition(f".{group}")
        inside = head.startswith("stages.") and head.count(".") == 1 and problem.path != head
        return inside and f"{group}{rest}" in paths and not origins.sets(problem.path)

    return [problem for problem in problems if not any(repeats(problem, group) for group in ("optim", "model"))]


def _once(problems: list[Problem], path: str) -> list[Problem]:
    """Leaves out what is wrong only because a value was taken over from a path that has a problem itself."""
    if all(problem.path != path for problem in problems):
        return problems
    return [problem for problem in problems if problem.where != INHERITED + path]


def _leaf_origins(value: Any, origins: Origins, path: str = "", inside: str = DEFAULT) -> dict[str, str]:
    where = origins.get(path) or inside
    if isinstance(value, (dict, list)) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        inside = where if isinstance(value, list) else DEFAULT
        found: dict[str, str] = {}
        for key, child in items:
            found |= _leaf_origins(child, origins, f"{path}.{key}" if path else str(key), inside)
        return found
    return {path: where}
