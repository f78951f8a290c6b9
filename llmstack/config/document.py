"""Configuration files that are no recipes: the jobs of ``llmstack data``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from llmstack.config.base import Strict
from llmstack.config.checks import check_paths
from llmstack.config.compose import compose_recipe
from llmstack.config.load import plugin_problems
from llmstack.config.paths import display
from llmstack.config.problems import problems_of
from llmstack.errors import ConfigError, Problem, UserError


class DocumentConfig(Strict):
    """Base of the configuration of a job that is no recipe."""

    plugins: tuple[str, ...] = ()
    """Python modules that register own sources and the like."""


D = TypeVar("D", bound=DocumentConfig)


@dataclass(frozen=True)
class Document(Generic[D]):
    """A configuration file that can be used.

    Attributes:
        config: the frozen configuration.
        resolved: the same as plain JSON-able data with every default filled in.
        path: the file.
    """

    config: D
    resolved: dict[str, Any]
    path: Path


def load_document(file: str, overrides: Sequence[str], model: type[D]) -> Document[D]:
    """Composes, decodes and checks a configuration file, as :func:`llmstack.config.load.load_recipe` does a recipe.

    Args:
        file: path of a YAML file.
        overrides: ``key=value`` arguments in Hydra's grammar.
        model: the class of its content.

    Returns:
        The configuration.

    Raises:
        UserError: there is no such file.
        ConfigError: something is wrong with it; carries every problem that could be found.
    """
    path = Path(file).resolve()
    if not path.is_file() or path.suffix != ".yaml":
        kind = "a folder" if path.is_dir() else f"a file named {path.name}"
        found = kind if path.exists() else "nothing"
        raise UserError(f"{file}: expected a file whose name ends in .yaml, got {found}. Check the path.")
    composed = compose_recipe(path, overrides, base=None)
    tree, origins = composed.tree, composed.origins
    problems = [*composed.problems, *plugin_problems(tree, path, origins)]
    failed = {problem.path for problem in problems}
    config = None
    try:
        config = model.model_validate(tree)
    except ValidationError as error:
        problems += [found for found in problems_of(error, model, tree, origins) if found.path not in failed]
    problems += [Problem(key, message, origins.find(key)) for key, message in check_paths(model, tree)]
    if problems or config is None:
        raise ConfigError([replace(problem, where=problem.where or display(path)) for problem in problems])
    return Document(config, config.model_dump(mode="json", by_alias=True), path)
