"""Puts a recipe together with Hydra: groups, search path, overrides, interpolations. Nothing is decoded here.

Hydra's words for what went wrong are turned into :class:`ConfigError`; its ``hydra`` node, output folders and logging
are not used, so composing writes nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.default_element import ResultDefault
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from llmstack.config.compose_errors import readable_errors
from llmstack.config.overrides import hydra_arguments, is_shadowed, parse_overrides, record_overrides
from llmstack.config.paths import configs_folder
from llmstack.config.provenance import Origins
from llmstack.config.searchpath import search_roots
from llmstack.errors import Problem

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


def compose_recipe(recipe: Path, overrides: Sequence[str], *, base: str | None = _BASE) -> Composed:
    """Composes a recipe, or another configuration file, with the shipped groups and the command line.

    Args:
        recipe: absolute path of the file.
        overrides: ``key=value`` arguments in Hydra's grammar. A plain ``key=value`` may also set a key that no file
            mentions; whether such a key exists is decided by the decoder, which knows all of them.
        base: file of ``configs/`` whose keys are filled in where the file has none; None fills in nothing.

    Returns:
        The plain tree with the origin of each value.

    Raises:
        ConfigError: a file is missing or is not YAML, an override cannot be read, or a group has no such option.
    """
    parsed = parse_overrides(overrides)
    roots = search_roots(recipe, parsed)
    arguments = hydra_arguments(parsed, roots)
    with readable_errors(recipe, parsed, roots), _quiet_hydra(recipe.parent) as loader:
        files = loader.compute_defaults_list(recipe.stem, arguments, RunMode.RUN)
        composed = compose(recipe.stem, overrides=arguments)
    with open_dict(composed):
        for item in parsed:
            if is_shadowed(item, roots):
                composed[item.key_or_group] = item.value()
    origins = Origins()
    if base is not None:
        _add_missing(composed, configs_folder() / base)
        origins.add_file(configs_folder() / base)
    for default in files.defaults:
        _add_origins(origins, default, roots)
    record_overrides(origins, parsed, roots)
    problems: list[Problem] = []
    tree = _plain(composed, "", origins, problems)
    return Composed(tree, origins, problems)


@contextmanager
def _quiet_hydra(folder: Path) -> Iterator[ConfigLoader]:
    """Hydra's loader for a folder, without its warning that a defaults list has no ``_self_`` (it then comes last)."""
    with warnings.catch_warnings(), initialize_config_dir(str(folder), job_name="llmstack", version_base="1.3"):
        warnings.simplefilter("ignore")
        yield GlobalHydra.instance().config_loader()


def _add_missing(composed: DictConfig, base: Path) -> None:
    """Adds those keys of the file under every recipe that the recipe does not set; interpolations stay open."""
    with open_dict(composed):
        for key, value in yaml.safe_load(base.read_text(encoding="utf-8")).items():
            if key not in composed:
                composed[key] = value


def _add_origins(origins: Origins, default: ResultDefault, roots: Sequence[Path]) -> None:
    config_path = default.config_path
    if config_path is None or config_path.startswith("hydra/"):
        return
    file = next((root / f"{config_path}.yaml" for root in roots if (root / f"{config_path}.yaml").is_file()), None)
    if file is not None:
        origins.add_file(file, default.package or "")


def _plain(node: DictConfig | ListConfig, path: str, origins: Origins, problems: list[Problem]) -> Any:
    """Copies a composed node into plain Python, noting every interpolation that fails instead of the first."""
    is_dict = isinstance(node, DictConfig)
    keys: list[Any] = list(node.keys()) if is_dict else list(range(len(node)))
    items: list[tuple[Any, Any]] = []
    for key in keys:
        below = f"{path}.{key}" if path else str(key)
        if OmegaConf.is_missing(node, key):
            origins.leave_open(below, str(node._get_full_key(key)))
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
