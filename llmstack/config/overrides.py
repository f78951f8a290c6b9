"""The ``key=value`` arguments of the command line, in Hydra's grammar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException

from llmstack.config.provenance import COMMAND_LINE, Origins
from llmstack.errors import ConfigError, Problem

SEARCH_PATH = "hydra.searchpath"


def parse_overrides(arguments: Sequence[str]) -> list[Override]:
    """Reads the arguments.

    Args:
        arguments: ``key=value``, ``+key=value``, ``++key=value``, ``~key`` or ``group=option``.

    Returns:
        The parsed arguments, in order.

    Raises:
        ConfigError: names every argument that cannot be read or has no effect here.
    """
    parsed, problems = [], []
    parser = OverridesParser.create()
    for text in arguments:
        try:
            item = parser.parse_override(text)
            if item.is_sweep_override():
                raise OverrideParseException(text, "a comma makes a sweep; write [a,b] for a list, quotes for a text")
            if item.key_or_group.startswith("hydra.") and item.key_or_group != SEARCH_PATH:
                raise OverrideParseException(text, f"of Hydra's own options only {SEARCH_PATH} has an effect here")
            parsed.append(item)
        except HydraException as error:
            reason = str(error).partition("\n")[0]
            message = f"expected key=value, got {text!r}: {reason}. Quote values with special characters."
            problems.append(Problem(text.partition("=")[0] or text, message, COMMAND_LINE))
    if problems:
        raise ConfigError(problems)
    return parsed


def is_group(item: Override, roots: Sequence[Path]) -> bool:
    """Whether an argument picks an option of a group, as Hydra decides it.

    Args:
        item: a parsed argument.
        roots: the folders that hold groups.

    Returns:
        True for ``model=tiny_llama``; False for ``seed=1`` and for ``model={...}``.
    """
    if isinstance(item.value(), (dict, list)) or "." in item.key_or_group:
        return False
    return item.package is not None or any((root / item.key_or_group).is_dir() for root in roots)


def is_shadowed(item: Override, roots: Sequence[Path]) -> bool:
    """Whether Hydra would take a plain key for a group because some folder of that name is beside the file.

    Args:
        item: a parsed argument.
        roots: the folders that hold groups.

    Returns:
        True for ``out=x`` beside a folder ``out`` without any YAML file.
    """
    text = item.input_line or ""
    if not is_group(item, roots) or item.package is not None or text.startswith(("+", "~")):
        return False
    folders = [root / item.key_or_group for root in roots]
    return not any(any(folder.glob(options)) for folder in folders for options in ("*.yaml", "*/*.yaml"))


def hydra_arguments(overrides: Sequence[Override], roots: Sequence[Path]) -> list[str]:
    """Writes the arguments for Hydra.

    A plain ``key=value`` may reach keys that no file mentions, because the decoder decides whether such a key exists;
    group choices, ``+`` and ``~`` stay as they are. The search path is given as absolute folders. What Hydra would
    misread (:func:`is_shadowed`) is left out.

    Args:
        overrides: the parsed arguments.
        roots: the folders that hold groups, the recipe's own first.

    Returns:
        Arguments for ``hydra.compose``.

    Raises:
        ConfigError: a group's option is not given by its name.
    """
    arguments, problems = [], []
    for item in overrides:
        if item.key_or_group == SEARCH_PATH or is_shadowed(item, roots):
            continue
        text, picks = item.input_line or "", is_group(item, roots)
        if picks and not item.is_delete() and not isinstance(item.value(), str):
            options = sorted({file.stem for root in roots for file in (root / item.key_or_group).glob("*.yaml")})
            message = f"expected an option of the group ({', '.join(options)}), got {item.value()!r}. Name one."
            problems.append(Problem(item.key_or_group, message, COMMAND_LINE))
        is_plain = not picks and not text.startswith(("+", "~"))
        arguments.append(f"++{text}" if is_plain else text)
    if problems:
        raise ConfigError(problems)
    return [*arguments, f"{SEARCH_PATH}=[{','.join(_quoted(root) for root in roots[1:])}]"]


def record_overrides(origins: Origins, overrides: Sequence[Override], roots: Sequence[Path]) -> None:
    """Notes which values the arguments set or delete.

    Args:
        origins: is added to.
        overrides: the parsed arguments.
        roots: the folders that hold groups.
    """
    for item in overrides:
        if item.key_or_group == SEARCH_PATH or (is_group(item, roots) and not is_shadowed(item, roots)):
            continue
        if item.is_delete():
            origins.remove(item.key_or_group)
        else:
            origins.add_override(item.key_or_group, item.value())


def _quoted(path: Path) -> str:
    text = path.as_posix().replace("'", r"\'")
    return f"'{text}'"
