"""Where recipes and configuration groups are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import os
from pathlib import Path

import llmstack
from llmstack.errors import UserError
from llmstack.registry import did_you_mean


def resource_folder(name: str) -> Path:
    """Finds a folder that is kept at the top of the repository and packed inside the package when it is built.

    Args:
        name: ``configs`` or ``recipes``.

    Returns:
        The absolute folder.
    """
    package = Path(llmstack.__file__).resolve().parent
    packed = package / "_resources" / name
    return packed if packed.is_dir() else package.parent / name


def configs_folder() -> Path:
    """The shipped Hydra groups: ``model/``, ``optim/`` and so on."""
    return resource_folder("configs")


def shipped_recipes() -> dict[str, Path]:
    """The recipes llmstack comes with: name -> file."""
    folder = resource_folder("recipes")
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def find_recipe(recipe: str) -> Path:
    """Finds a recipe by path or by shipped name.

    Args:
        recipe: ``path/to/file.yaml``, or a name such as ``quickstart``. A path that exists wins over a name.

    Returns:
        The absolute path of the YAML file.

    Raises:
        UserError: no such file or name, or not a YAML file.
    """
    path = Path(recipe)
    shipped = shipped_recipes()
    if path.is_file():
        if path.suffix != ".yaml":
            raise UserError(f"{recipe}: expected a file whose name ends in .yaml, got {path.name!r}. Rename it.")
        return path.resolve()
    if recipe in shipped:
        return shipped[recipe]
    if path.is_dir():
        raise UserError(f"{recipe}: expected a YAML file, got a folder. Name a file in it.")
    fix = did_you_mean(recipe, shipped) or "Check the path."
    raise UserError(
        f"{recipe}: expected a recipe file or the name of a shipped recipe ({', '.join(shipped)}), got neither. {fix}"
    )


def cache_folder() -> Path:
    """Where things that can be made again are kept: ``$XDG_CACHE_HOME/llmstack`` or ``~/.cache/llmstack``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llmstack"


def data_cache_folder() -> Path:
    """Where prepared data is kept: ``$LLMSTACK_DATA_CACHE``, or ``data`` in :func:`cache_folder`."""
    named = os.environ.get("LLMSTACK_DATA_CACHE")
    return Path(named) if named else cache_folder() / "data"


def display(path: Path) -> str:
    """A path for messages: relative to the working directory when it is inside it."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
