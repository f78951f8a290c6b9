"""``llmstack show``: the resolved recipe, with where each value came from beside it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from llmstack.config.load import load_recipe
from llmstack.config.schema import recipe_schema
from llmstack.errors import UserError

_WIDEST = 72


def run(args: argparse.Namespace) -> int:
    """Prints the recipe as YAML with an aligned comment of origin, as JSON, or prints the schema of recipes.

    Args:
        args: ``recipe`` (None only with ``schema``), ``overrides``, ``json``, ``schema``.

    Returns:
        0.

    Raises:
        UserError: the recipe is wrong, or none is named.
    """
    if args.recipe is None and not args.schema:
        raise UserError("RECIPE: expected a recipe, got nothing. Name a YAML file, or one of `llmstack list recipes`.")
    loaded = load_recipe(args.recipe, args.overrides) if args.recipe is not None else None
    if args.schema or loaded is None:  # after loading: the recipe's plugins are then part of the schema
        text = json.dumps(recipe_schema(), indent=2)
    elif args.json:
        text = json.dumps({"recipe": loaded.resolved, "origins": loaded.origins}, indent=2)
    else:
        text = "\n".join(annotated(loaded.resolved, loaded.origins))
    sys.stdout.write(text + "\n")
    return 0


def annotated(resolved: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    """Writes a resolved recipe as YAML whose comments say where each value came from.

    Args:
        resolved: plain data.
        origins: dotted path of each leaf -> where it came from.

    Returns:
        The lines; they read back as the same recipe.
    """
    rows = list(_rows(resolved, origins, "", 0))
    column = max((len(text) for text, where in rows if where and len(text) <= _WIDEST), default=0)
    return [f"{text:<{column}}  # {where}" if where else text for text, where in rows]


def _rows(node: Mapping[str, Any], origins: Mapping[str, str], path: str, depth: int) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        below = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and value:
            yield f"{'  ' * depth}{key}:", ""
            yield from _rows(value, origins, below, depth + 1)
        else:
            yield f"{'  ' * depth}{key}: {_inline(value)}", origins.get(below) or origins.get(f"{below}.0", "")


def _inline(value: Any) -> str:
    """A leaf, or a list, on one line of YAML."""
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.removesuffix("...\n").strip()
