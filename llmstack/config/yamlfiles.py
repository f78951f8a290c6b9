"""Reads YAML files for their structure and line numbers; what cannot be read is a ConfigError with file and line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from llmstack.config.paths import display
from llmstack.errors import ConfigError, Problem

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_node(file: Path) -> yaml.MappingNode:
    """Parses a YAML file into its node tree, which knows lines.

    Args:
        file: a readable file.

    Returns:
        The root mapping; an empty file gives an empty mapping.

    Raises:
        ConfigError: not UTF-8, not YAML, or not a mapping.
    """
    try:
        text = file.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=_LOADER)
    except UnicodeDecodeError as error:
        byte = f"{error.object[error.start]:#04x} at offset {error.start}"
        message = f"expected UTF-8 text, got the byte {byte}. Save it as UTF-8."
        raise ConfigError([Problem(display(file), message)]) from error
    except OSError as error:
        raise ConfigError(
            [Problem(display(file), f"expected a readable file, got {error.strerror}. Check the path.")]
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError([yaml_problem(error, file)]) from error
    if node is None:
        return yaml.MappingNode("tag:yaml.org,2002:map", [])
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(
            [Problem(display(file), "expected `key: value` lines, got another kind of YAML. See a shipped recipe.")]
        )
    return node


def yaml_problem(error: yaml.YAMLError, file: Path) -> Problem:
    """Words a YAML syntax error.

    Args:
        error: what the parser raised.
        file: the file it was reading, used when the error does not name one.

    Returns:
        The problem, with ``file:line`` when the parser knows the line.
    """
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).partition("\n")[0]
    context = getattr(error, "context", None)
    reason = f"{what} ({context})" if context else what
    if mark is not None and Path(mark.name).is_file():
        file = Path(mark.name)
    where = f"{display(file)}:{mark.line + 1}" if mark is not None else display(file)
    return Problem(
        where, f"expected YAML, got a syntax error: {reason}. Check indentation, colons and quotes near this line."
    )


def scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Walks every scalar below a node, keys included."""
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from scalars(key)
            yield from scalars(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from scalars(item)


def child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """The value of a key of a mapping node; None when there is none."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                found: yaml.Node = value
                return found
    return None
