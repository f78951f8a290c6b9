"""The options of ``llmstack data``, one command of its own for each job."""

from __future__ import annotations

import argparse

from llmstack.cli.arguments import positive

Command = argparse.ArgumentParser


def add_data(command: Command) -> None:
    """Commands of ``llmstack data``.

    Args:
        command: gets them.
    """
    jobs = command.add_subparsers(title="jobs", metavar="JOB", required=True)
    prepare = _recipe_job(jobs, "prepare", "encode a recipe's data into the cache, where training finds it")
    _add_stage(prepare)
    stats = _recipe_job(jobs, "stats", "figures about a recipe's data: lengths, packing, what was left out, blends")
    _add_stage(stats)
    stats.add_argument("--json", action="store_true", help="print JSON")
    stats.add_argument("--plot", metavar="FILE.png", help="draw lengths, and the shares of blends, into this file")
    _add_show(_recipe_job(jobs, "show", "print rows of a recipe's data as the model sees them"))
    _document_job(jobs, "clean", "filter, deduplicate and mask unlabelled text, with a report")
    _document_job(jobs, "annotate", "label prompts by endpoints, models and people")


def _job(jobs: argparse._SubParsersAction, name: str, about: str) -> Command:
    command: Command = jobs.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False
    )
    command.set_defaults(module=f"data_{name}")
    return command


def _recipe_job(jobs: argparse._SubParsersAction, name: str, about: str) -> Command:
    command = _job(jobs, name, about)
    command.add_argument("recipe", metavar="RECIPE", help="a YAML file, or the name of a shipped recipe")
    command.add_argument("overrides", metavar="key=value", nargs="*", help="change a value")
    return command


def _add_stage(command: Command) -> None:
    command.add_argument("--stage", metavar="NAME", help="only the data of this stage (default: of all)")


def _add_show(command: Command) -> None:
    add = command.add_argument
    add("--stage", metavar="NAME", required=True, help="whose data")
    add("--eval", action="store_true", help="its evaluation data (default: its training data)")
    add("--tokens", action="store_true", help="a table of tokens, labels, positions and segments instead of text")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--rows", type=positive, metavar="N", help="the first N rows of each part (default 2)")
    which.add_argument("--row", metavar="[PART:]I", help="this row, as rows.jsonl of a run numbers it")
    which.add_argument("--step", type=positive, metavar="S", help="the rows that training step S reads")


def _document_job(jobs: argparse._SubParsersAction, name: str, about: str) -> Command:
    """A job whose options are in a YAML file; they end up in ``recipe`` and ``overrides`` as those of a recipe do."""
    command = _job(jobs, name, about)
    command.add_argument("recipe", metavar="CONFIG", help="a YAML file")
    command.add_argument("overrides", metavar="key=value", nargs="*", help="change a value")
    return command
