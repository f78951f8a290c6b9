"""``llmstack list``: the names a recipe can use."""

from __future__ import annotations

import argparse
import sys

from llmstack import registry
from llmstack.config.paths import shipped_recipes


def run(args: argparse.Namespace) -> int:
    """Prints one name a line with what it is.

    Args:
        args: ``what``, the kind of name.

    Returns:
        0.
    """
    rows = _recipes() if args.what == "recipes" else _registered(args.what)
    width = max(len(name) for name, _ in rows)
    sys.stdout.writelines(f"{name:<{width}}  {about}".rstrip() + "\n" for name, about in rows)
    return 0


def _registered(what: str) -> list[tuple[str, str]]:
    table: registry.Registry[object] = getattr(registry, what.upper())
    return [(name, table.summary(name)) for name in table.names()]


def _recipes() -> list[tuple[str, str]]:
    """Each shipped recipe with the comment on its first line."""
    rows = []
    for name, path in shipped_recipes().items():
        with path.open(encoding="utf-8") as stream:
            rows.append((name, stream.readline().lstrip("#").strip()))
    return rows
