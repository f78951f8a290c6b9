"""``llmstack export-mindformers``: hands a stage over to MindFormers' own trainer."""

from __future__ import annotations

import argparse
import sys

from llmstack.config.load import load_recipe


def run(args: argparse.Namespace) -> int:
    """Writes the run and says how to start it.

    Args:
        args: ``recipe``, ``overrides``, ``stage`` and ``out``.

    Returns:
        0.

    Raises:
        UserError: the recipe is wrong, or the stage cannot be handed over.
    """
    loaded = load_recipe(args.recipe, args.overrides)
    from llmstack.stages.mindformers_export import write_mindformers_run

    out = write_mindformers_run(loaded, args.stage, args.out)
    sys.stdout.write(f"{out}: a run for mindformers.Trainer; start it with `python {out / 'train.py'}`\n")
    return 0
