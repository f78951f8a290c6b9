"""The options of ``llmstack data``, one command of its own for each job."""

from __future__ import annotations

import argparse

Command = argparse.ArgumentParser


def add_data(command: Command) -> None:
    """Commands of ``llmstack data``.

    Args:
        command: gets them.
    """
    jobs = command.add_subparsers(title="jobs", metavar="JOB", required=True)
    _document_job(jobs, "clean", "filter, deduplicate and mask unlabelled text, with a report")
    _document_job(jobs, "annotate", "label prompts by endpoints, models and people")


def _job(jobs: argparse._SubParsersAction, name: str, about: str) -> Command:
    command: Command = jobs.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False
    )
    command.set_defaults(module=f"data_{name}")
    return command


def _document_job(jobs: argparse._SubParsersAction, name: str, about: str) -> Command:
    """A job whose options are in a YAML file; they end up in ``recipe`` and ``overrides`` as those of a recipe do."""
    command = _job(jobs, name, about)
    command.add_argument("recipe", metavar="CONFIG", help="a YAML file")
    command.add_argument("overrides", metavar="key=value", nargs="*", help="change a value")
    return command
