"""``llmstack data clean``: filters, deduplicates and masks unlabelled text."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from llmstack.config.clean import CleanConfig
from llmstack.config.document import load_document
from llmstack.data.clean.pipeline import Listener, StepReport
from llmstack.data.clean.report import REPORT_FILES, Report
from llmstack.data.clean.run import clean
from llmstack.data.clean.tally import by_frequency
from llmstack.engine.stop import terminable
from llmstack.errors import DataError
from llmstack.models.new_folder import check_new, new_folder

_QUIET_SECONDS = 30.0
_SHOWN_REASONS = 3


def run(args: argparse.Namespace) -> int:
    """Cleans a corpus into a new folder, all or nothing, and prints a line a step.

    Args:
        args: ``recipe``, a YAML file, and ``overrides``.

    Returns:
        0.

    Raises:
        UserError: something is wrong with the configuration or the data, ``out`` is not empty, or no document is left;
            the report is then kept.
    """
    document = load_document(args.recipe, args.overrides, CleanConfig)
    config, out = document.config, Path(document.config.out)
    if out.is_dir() and REPORT_FILES == {path.name for path in out.iterdir()}:
        shutil.rmtree(out)  # of a run that left no document
    check_new(out, option="out")
    listener = Lines()
    with terminable(), new_folder(out, option="out") as folder:
        report = clean(config, folder, resolved=document.resolved, listener=listener)
    if not report.documents_out:
        raise DataError(_nothing_left(report, out))
    first, last = report.steps[0].tally, report.steps[-1].tally
    sys.stdout.write(
        f"{last.documents_out:,} of {first.documents_in:,} documents, {last.chars_out:,} of {first.chars_in:,} "
        f"characters in {out} after {report.seconds:.1f} seconds; the reasons are in {out}/report.md\n"
    )
    return 0


def _nothing_left(report: Report, out: Path) -> str:
    name, reason, documents = report.biggest_reason()
    return (
        f"data: expected documents that pass the steps, got none of {report.documents_in:,}; {name} dropped most "
        f"({documents:,}: {reason}). Change that step; {out}/report.md shows examples."
    )


class Lines(Listener):
    """A bar while documents go through, on anything but a terminal a line now and then; a line for a finished step."""

    def __init__(self) -> None:
        self._bar: tqdm | None = None
        self._spoken = time.monotonic()

    def advanced(self, names: Sequence[str], documents: int, total: int | None) -> None:
        """Shows how far a pass is.

        Args:
            names: its steps.
            documents: how many have gone through.
            total: how many there are, when that is known.
        """
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = tqdm(desc=", ".join(names), total=total, unit=" documents", dynamic_ncols=True, leave=False)
            self._bar.update(documents - self._bar.n)
        elif time.monotonic() - self._spoken > _QUIET_SECONDS:
            self._spoken = time.monotonic()
            of = f" of {total:,}" if total is not None else ""
            sys.stderr.write(f"{documents:,}{of} documents through {', '.join(names)}\n")

    def finished(self, step: StepReport) -> None:
        """Says in a line what a step did.

        Args:
            step: its counts.
        """
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        tally = step.tally
        found = [f"{reason} {found.documents:,}" for reason, found in by_frequency(tally.dropped)]
        found += [f"{what} {found.count:,}" for what, found in by_frequency(tally.changed)]
        more = [f"{len(found) - _SHOWN_REASONS} more"] if len(found) > _SHOWN_REASONS else []
        numbers = f"{tally.documents_in:>11,} -> {tally.documents_out:>11,} documents {tally.cpu_seconds:>7.1f} s"
        sys.stdout.write(f"{step.name:<19}{numbers}  {', '.join(found[:_SHOWN_REASONS] + more)}".rstrip() + "\n")
        sys.stdout.flush()
