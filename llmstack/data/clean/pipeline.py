"""The passes over a corpus.

A step that looks at one document at a time works as documents stream by. One that must see the corpus first
(duplicates, boilerplate) ends a pass: the documents it has seen wait on disk, and the next pass begins with its
decision. Memory holds what such a step remembers of each document, and a few batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llmstack.data.clean.batches import BatchResult, BatchWork, Spill, in_batches
from llmstack.data.clean.clusters import places_of
from llmstack.data.clean.step import CorpusStep, Decision, Document, Step
from llmstack.data.clean.tally import Excerpts, Tally
from llmstack.data.workers import Workers

Write = Callable[[list[Document]], None]


class Listener:
    """Is told how far the work is; this one says nothing."""

    def advanced(self, names: Sequence[str], documents: int, total: int | None) -> None:
        """A batch is done.

        Args:
            names: the steps of the pass.
            documents: how many have gone through.
            total: how many there are, when that is known.
        """

    def finished(self, step: StepReport) -> None:
        """A step has seen its last document.

        Args:
            step: what it did.
        """


@dataclass
class StepReport:
    """What a step did.

    Attributes:
        name: its kind.
        tally: the counts.
        details: more, as JSON-able values.
    """

    name: str
    tally: Tally = field(default_factory=Tally)
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Pass:
    """Steps with their reports; what begins them, decided by the pass before; the corpus step that ends them."""

    steps: list[Step] = field(default_factory=list)
    reports: list[StepReport] = field(default_factory=list)
    decision: Decision | None = None
    scanner: CorpusStep | None = None
    scanner_report: StepReport = field(default_factory=lambda: StepReport(""))

    def begin_with(self, decision: Decision, report: StepReport) -> None:
        """Puts a corpus step's decision before the other steps."""
        self.decision = decision
        self.steps.insert(0, decision.step)
        self.reports.insert(0, report)

    def names(self) -> list[str]:
        """The steps that documents go through, the one that only looks at them included."""
        names = [report.name for report in self.reports]
        return names if self.scanner is None else [*names, self.scanner_report.name]


class Pipeline:
    """Takes documents through named steps.

    Args:
        steps: name and step, in order.
        excerpts: how examples are taken.
        workers: do the work.
        listener: is told how far the work is.
    """

    def __init__(
        self,
        steps: Sequence[tuple[str, Step | CorpusStep]],
        *,
        excerpts: Excerpts,
        workers: Workers,
        listener: Listener,
    ) -> None:
        self._excerpts, self._workers, self._listener = excerpts, workers, listener
        self._passes = [_Pass()]
        for name, step in steps:
            report = StepReport(name)
            if isinstance(step, CorpusStep):
                self._passes[-1].scanner, self._passes[-1].scanner_report = step, report
                self._passes.append(_Pass())
            else:
                self._passes[-1].steps.append(step)
                self._passes[-1].reports.append(report)

    def run(self, documents: Iterable[Document], scratch: Path, write: Write) -> list[StepReport]:
        """Work through the corpus. Call it once: corpus steps remember what they saw.

        Args:
            documents: with ascending numbers.
            scratch: a folder for documents that wait.
            write: takes the documents that are left, a batch at a time, in order.

        Returns:
            What each step did, in order.
        """
        batches: Iterable[list[Document]] = in_batches(documents)
        total: int | None = None
        for number, current in enumerate(self._passes):
            if current.scanner is None:
                total = self._run_pass(current, batches, write, total=total)
                continue
            spill = Spill(scratch / f"pass-{number}.pickle")
            total = self._run_pass(current, batches, spill.write, total=total)
            started = time.process_time()
            decision = current.scanner.decide()
            current.scanner_report.tally.cpu_seconds += time.process_time() - started
            self._passes[number + 1].begin_with(decision, current.scanner_report)
            current.scanner = None  # frees what it remembered
            batches = spill.read()
        return [report for current in self._passes for report in current.reports]

    def _run_pass(self, current: _Pass, batches: Iterable[list[Document]], write: Write, *, total: int | None) -> int:
        """Runs a pass; returns how many documents are left."""
        clusters = current.decision.clusters if current.decision is not None else ()
        wheres = {number: "" for cluster in clusters for number in cluster}
        work = BatchWork(tuple(current.steps), current.scanner, self._excerpts)
        seen = left = 0
        for result in self._workers.map(work, _noting(batches, wheres)):
            self._take(current, result)
            write(result.documents)
            seen, left = seen + result.num_taken, left + len(result.documents)
            self._listener.advanced(current.names(), seen, total)
        for report, step in zip(current.reports, current.steps, strict=True):
            report.details.update(step.details())
        if clusters:
            current.reports[0].details["largest_clusters"] = places_of(clusters, wheres)
        for report in current.reports:
            self._listener.finished(report)
        return left

    def _take(self, current: _Pass, result: BatchResult) -> None:
        for report, tally in zip(current.reports, result.tallies, strict=True):
            report.tally.merge(tally, self._excerpts.limit)
        if current.scanner is not None:
            current.scanner_report.tally.cpu_seconds += result.scan_cpu_seconds
            if result.documents:
                numbers = np.array([document.number for document in result.documents], np.int64)
                current.scanner.collect(numbers, result.scans)


def _noting(batches: Iterable[list[Document]], wheres: dict[int, str]) -> Iterator[list[Document]]:
    """Batches as they are; notes where the documents come from whose numbers are asked for."""
    for batch in batches:
        if wheres:
            wheres.update((document.number, document.where) for document in batch if document.number in wheres)
        yield batch
