"""``llmstack check``: decodes and validates a recipe."""

from __future__ import annotations

import argparse
import sys

from llmstack.config.load import load_recipe
from llmstack.config.paths import display
from llmstack.config.recipe import RecipeConfig


def run(args: argparse.Namespace) -> int:
    """Loads the recipe and says in a few lines what it would run.

    Args:
        args: ``recipe`` and ``overrides``.

    Returns:
        0.

    Raises:
        UserError: the recipe is wrong.
    """
    loaded = load_recipe(args.recipe, args.overrides)
    from llmstack.stages.preflight import check_folders

    check_folders(loaded)
    sys.stdout.write(f"{display(loaded.path)}: ok\n{_summary(loaded.config)}")
    return 0


def _summary(config: RecipeConfig) -> str:
    width = max(len(name) for name in config.stages)
    kinds = max(len(stage.kind) for stage in config.stages.values())
    lines = [f"  run folder  {config.run_dir}\n"]
    for name, stage in config.stages.items():
        start = f", from {stage.init_from}" if stage.init_from else ""
        lines.append(f"  {name:<{width}}  {stage.kind:<{kinds}}  {stage.budget}{start}\n")
    return "".join(lines)
