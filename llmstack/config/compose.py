"""Puts a recipe together with Hydra: groups, search path, overrides, interpolations. Nothing is decoded here.

Hydra's words for what went wrong are turned into :class:`ConfigError`; its ``hydra`` node, output folders and logging
are not used, so composing writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.default_element import ResultDefault
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from llmstack.config.paths import configs_folder, display
from llmstack.config.provenance import COMMAND_LINE, Origins
from llmstack.config.searchpath import search_roots
from llmstack.config.yamlfiles import child, read_node, scalars, yaml_problem
from llmstack.errors import ConfigError, Problem
from llmstack.registry import did_you_mean

_BASE = "recipe.yaml"
"""File of ``configs/`` that lies under every recipe."""


@dataclass
class Composed:
    """A recipe put together but not decoded.

    Attributes:
        tree: plain mappings, lists and scalars; interpolations resolved, unset (``???``) keys left out.
        origins: where each value came from.
        problems: interpolations that lead nowhere.
    """

    tree: dict[str, Any]
    origins: Origins
    problems: list[Problem]


def compose_recipe(recipe: Path, overrides: Sequence[str]) -> Composed:
    """Composes a recipe file with the shipped groups and the command line.

    Args:
        recipe: absolute path of the recipe.
        overrides: ``key=value`` arguments in Hydra's grammar. A plain ``key=value`` may also set a key that no file
            mentions; whether such a key exists is decided by the decoder, which knows all of them.

    Returns:
        The plain tree with the origin of each value.

    Raises:
        ConfigError: a file is missing or is not YAML, an override cannot be read, or a group has no such option.
    """
    parsed = _parse_overrides(overrides)
    roots = search_roots(recipe, parsed)
    base = configs_folder() / _BASE
    with _readable_errors(recipe, parsed, roots):
        with initialize_config_dir(config_dir=str(recipe.parent), job_name="llmstack", version_base="1.3"):
            arguments = [_as_argument(item, roots) for item in parsed if item.key_or_group != "hydra.searchpath"]
            arguments.append(f"hydra.searchpath=[{','.join(_quote(root) for root in roots[1:])}]")
            files = GlobalHydra.instance().config_loader().compute_defaults_list(recipe.stem, arguments, RunMode.RUN)
            composed = compose(recipe.stem, overrides=arguments)
        merged = OmegaConf.merge(OmegaConf.load(base), composed)
    origins = Origins()
    origins.add_file(base)
    for default in files.defaults:
        _add_origins(origins, default, roots)
    for item in parsed:
        _add_override(origins, item, roots)
    problems: list[Problem] = []
    tree = _plain(merged, "", origins, problems)
    return Composed(tree, origins, problems)


def _parse_overrides(overrides: Sequence[str]) -> list[Override]:
    parsed, problems = [], []
    parser = OverridesParser.create()
    for text in overrides:
        try:
            item = parser.parse_override(text)
            if item.is_sweep_override():
                raise OverrideParseException(text, "a comma makes a sweep; write [a,b] for a list, quotes for a text")
            if item.key_or_group.startswith("hydra.") and item.key_or_group != "hydra.searchpath":
                raise OverrideParseException(text, "of Hydra's own options only hydra.searchpath has an effect here")
            parsed.append(item)
        except HydraException as error:
            reason = str(error).partition("\n")[0]
            message = f"expected key=value, got {text!r}: {reason}. Quote values with special characters."
            problems.append(Problem(text.partition("=")[0] or text, message, COMMAND_LINE))
    if problems:
        raise ConfigError(problems)
    return parsed


def _as_argument(item: Override, roots: Sequence[Path]) -> str:
    """Lets a plain ``key=value`` reach keys that no file mentions; group choices, ``+`` and ``~`` stay as they are."""
    text = item.input_line or ""
    is_plain = item.type is not None and not (item.is_add() or item.is_delete())
    return f"++{text}" if is_plain and not text.startswith("+") and not _is_group(item, roots) else text


def _is_group(item: Override, roots: Sequence[Path]) -> bool:
    """Whether an override picks an option of a group, as Hydra decides it."""
    if isinstance(item.value(), (dict, list)) or "." in item.key_or_group:
        return False
    return item.package is not None or any((root / item.key_or_group).is_dir() for root in roots)


def _quote(path: Path) -> str:
    text = path.as_posix().replace("'", r"\'")
    return f"'{text}'"


def _add_origins(origins: Origins, default: ResultDefault, roots: Sequence[Path]) -> None:
    config_path = default.config_path
    if config_path is None or config_path.startswith(("hydra/", "_")):
        return
    file = next((root / f"{config_path}.yaml" for root in roots if (root / f"{config_path}.yaml").is_file()), None)
    if file is not None:
        origins.add_file(file, default.package or "")


def _add_override(origins: Origins, item: Override, roots: Sequence[Path]) -> None:
    if item.key_or_group.startswith("hydra.") or _is_group(item, roots):
        return
    if item.is_delete():
        origins.remove(item.key_or_group)
    else:
        origins.add_override(item.key_or_group, item.value())


def _plain(node: DictConfig | ListConfig, path: str, origins: Origins, problems: list[Problem]) -> Any:
    """Copies a composed node into plain Python, noting every interpolation that fails instead of the first."""
    is_dict = isinstance(node, DictConfig)
    keys: list[Any] = list(node.keys()) if is_dict else list(range(len(node)))
    items: list[tuple[Any, Any]] = []
    for key in keys:
        below = f"{path}.{key}" if path else str(key)
        if OmegaConf.is_missing(node, key):
            continue
        try:
            value = node[key]
        except OmegaConfBaseException as error:
            reason = str(error.msg or error).partition("\n")[0]
            message = f"expected a value that can be worked out, got an interpolation that fails: {reason}. Correct it."
            problems.append(Problem(below, message, origins.find(below)))
            continue
        if isinstance(value, (DictConfig, ListConfig)):
            value = _plain(value, below, origins, problems)
            if OmegaConf.is_interpolation(node, key):
                origins.spread(below, value)
        items.append((key, value))
    return dict(items) if is_dict else [value for _, value in items]


@contextmanager
def _readable_errors(recipe: Path, overrides: Sequence[Override], roots: Sequence[Path]) -> Iterator[None]:
    """Turns what Hydra, OmegaConf and YAML raise into a ConfigError."""
    try:
        yield
    except yaml.YAMLError as error:
        raise ConfigError([yaml_problem(error, recipe)]) from error
    except MissingConfigException as error:
        raise ConfigError([_missing_option(error, overrides, roots)]) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError([_cannot_compose(error, recipe, overrides)]) from error


def _missing_option(error: MissingConfigException, overrides: Sequence[Override], roots: Sequence[Path]) -> Problem:
    """A group has no such option: says which it has, and where the choice was made."""
    group, _, option = (error.missing_cfg_file or "").rpartition("/")
    options = list(error.options or ())
    chosen = next((item for item in overrides if item.key_or_group == group and item.value() == option), None)
    where = COMMAND_LINE if chosen else _line_of_default(str(error), option, roots)
    fix = did_you_mean(option, options) or "Choose one of these, or add the file to a folder of hydra.searchpath."
    known = f"an option of `{group}` ({', '.join(options)})" if options else "the file of a configuration group"
    return Problem(group or "defaults", f"expected {known}, got {option!r}. {fix}", where)


def _line_of_default(message: str, option: str, roots: Sequence[Path]) -> str:
    """Finds the entry of the defaults list that Hydra's message is about."""
    named = re.match(r"In '([^']+)'", message)
    files = (root / f"{named.group(1)}.yaml" for root in roots) if named else ()
    file = next((candidate for candidate in files if candidate.is_file()), None)
    defaults = child(read_node(file), "defaults") if file else None
    if file is None or defaults is None:
        return ""
    found = [item for item in scalars(defaults) if item.value.rpartition("/")[2].removesuffix(".yaml") == option]
    return f"{display(file)}:{(found[0] if found else defaults).start_mark.line + 1}"


def _cannot_compose(error: Exception, recipe: Path, overrides: Sequence[Override]) -> Problem:
    """Anything else Hydra refuses, in its own words on one line."""
    reasons = [str(error)]
    if isinstance(error.__cause__, OmegaConfBaseException):
        reasons.append(str(error.__cause__).partition("\n")[0])
    reason = ": ".join(" ".join(text.split()) for text in reasons if text)
    culprit = next(
        (item for item in overrides if re.search(rf"(?<![\w.]){re.escape(item.key_or_group)}(?![\w.])", reason)), None
    )
    message = f"expected parts that fit together, got a recipe Hydra cannot compose: {reason}"
    if culprit is not None:
        return Problem(culprit.key_or_group, message, COMMAND_LINE)
    return Problem(display(recipe), message)
