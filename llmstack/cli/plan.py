"""``llmstack plan``: what a recipe needs and how fast it should be, without running anything."""

from __future__ import annotations

import argparse
import json
import sys

from llmstack.cli.plan_json import as_json
from llmstack.cli.plan_text import as_text, settings_text
from llmstack.config.hardware import read_hardware
from llmstack.config.load import LoadedRecipe, load_recipe
from llmstack.config.recipe import RecipeConfig
from llmstack.errors import UserError
from llmstack.parallel.plan.layouts import Job, Layout, fewest_devices
from llmstack.parallel.plan.models import Models
from llmstack.parallel.plan.plan import Plan, make_plan


def run(args: argparse.Namespace) -> int:
    """Print the plan.

    Args:
        args: ``recipe``, ``overrides``, ``devices``, ``hardware``, ``stage`` and ``json``.

    Returns:
        0.

    Raises:
        UserError: the recipe is wrong, nothing fits the devices, or a stage has no room; then after the plan.
    """
    loaded = load_recipe(args.recipe, args.overrides)
    config = loaded.config
    hardware = read_hardware(args.hardware, loaded.path.parent) if args.hardware else config.hardware
    if hardware is None and config.parallel.device == "ascend":
        raise UserError(
            "hardware: expected the figures of a device because parallel.device is ascend, got null. Give `--hardware "
            "ascend_910b`, or put `- /hardware: ascend_910b` under the recipe's `defaults`."
        )
    plan = make_plan(config, [args.recipe, *args.overrides], args.devices, hardware, only=args.stage)
    sys.stdout.write(json.dumps(as_json(plan), indent=2) + "\n" if args.json else as_text(plan))
    if not plan.fits:
        sys.stdout.flush()
        raise UserError(_no_room(plan, loaded))
    return 0


def _no_room(plan: Plan, loaded: LoadedRecipe) -> str:
    """How much the fullest stage lacks, what takes most, and what would fit."""
    if plan.hardware is None:
        raise AssertionError("without hardware nobody knows how much room there is")
    stage = max(plan.stages, key=lambda stage: stage.memory.total)
    largest = sorted(stage.memory.parts.items(), key=lambda part: -part[1])[:2]
    what = ", ".join(f"{name.replace('_', ' ')} {size / 1e9:.1f}" for name, size in largest)
    limit, devices = plan.hardware.usable_bytes / 1e9, plan.parallel.num_devices
    text = (
        f"stages.{stage.work.name}: expected at most {limit:.1f} GB a device ({plan.hardware.name}), got "
        f"{stage.memory.total / 1e9:.1f} ({what})."
    )
    fitting = plan.layouts[0] if plan.layouts and plan.layouts[0].fits else None
    where = f"On {devices}"
    if fitting is None:
        fitting = _on_more(plan, loaded.config)
        where = f"{devices} cannot hold it; on {fitting.parallel.num_devices if fitting else 0}"
    if fitting is None:
        return f"{text} No number of devices up to 4096 is enough: make rows shorter, or batch_rows smaller."
    return f"{text} {where} there is room with {settings_text(fitting.parallel)} ({fitting.fullest / 1e9:.1f} GB)."


def _on_more(plan: Plan, config: RecipeConfig) -> Layout | None:
    if plan.hardware is None:
        return None
    names = [stage.work.name for stage in plan.stages]
    job = Job(
        tuple(stage.work for stage in plan.stages),
        {name: config.stages[name] for name in names},
        Models(config).all(),
        config.parallel,
        plan.hardware,
    )
    return fewest_devices(job, plan.parallel.num_devices)
