"""``llmstack train``: runs or resumes a recipe."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from llmstack.config.load import load_recipe
from llmstack.engine.stop import terminable


def run(args: argparse.Namespace) -> int:
    """Run the recipe and say how each stage ended.

    Args:
        args: ``recipe``, ``overrides``, ``stage`` and ``fresh``; ``run_folder`` is set on it for the fault report.

    Returns:
        0.

    Raises:
        UserError: the recipe or its data is wrong.
    """
    with terminable():
        loaded = load_recipe(args.recipe, args.overrides)
        args.run_folder = Path(loaded.config.run_dir)
        # the chain needs the data engine and numpy; checking the recipe must not wait for them
        from llmstack.stages.chain import run_recipe

        summary = run_recipe(loaded, until=args.stage, fresh=args.fresh)
    sys.stdout.write(_table(summary, args.run_folder))
    return 0


def _table(summary: dict[str, Any], folder: Path) -> str:
    lines = [f"{summary['recipe']}: {summary['status']} in {summary['wall_seconds']:.0f} s, files in {folder}\n"]
    for name, stage in summary["stages"].items():
        measured = ", ".join(_pairs(stage["metrics"]))
        lines.append(f"  {name:<8} {stage['kind']:<9} {stage['wall_seconds']:6.0f} s  {measured}\n")
    return "".join(lines)


def _pairs(metrics: dict[str, float | None]) -> list[str]:
    """``name first -> last`` of every evaluated metric."""
    pairs = []
    for key, last in metrics.items():
        if key.startswith("eval/") and not key.endswith("_first"):
            first = metrics.get(f"{key}_first")
            pairs.append(f"{key.removeprefix('eval/')} {_number(first)} -> {_number(last)}")
    return pairs


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
