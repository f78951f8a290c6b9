"""Documents in batches: made from a source, kept on disk between passes, taken through the steps of a pass."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from llmstack.data.clean.step import CorpusStep, Document, Step, drop
from llmstack.data.clean.tally import Excerpts, Tally

_BATCH_DOCUMENTS, _BATCH_CHARS = 256, 1 << 20
"""A batch is full with so many documents or characters, whichever comes first."""


def in_batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Groups documents, the same way whoever works on them.

    Args:
        documents: in order.

    Yields:
        Lists that are not empty.
    """
    batch: list[Document] = []
    chars = 0
    for document in documents:
        batch.append(document)
        chars += len(document.text)
        if len(batch) == _BATCH_DOCUMENTS or chars >= _BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


@dataclass(frozen=True)
class BatchResult:
    """What a pass made of a batch.

    Attributes:
        num_taken: how many came in.
        documents: those that are left.
        scans: for each of them what the corpus step wants to remember; empty without one.
        tallies: the counts of each step.
        scan_cpu_seconds: processor time spent in the corpus step.
    """

    num_taken: int
    documents: list[Document]
    scans: list[np.ndarray]
    tallies: list[Tally]
    scan_cpu_seconds: float


@dataclass(frozen=True)
class BatchWork:
    """Takes a batch through the steps of a pass. A copy of it is in each worker process.

    Attributes:
        steps: applied one after the other.
        scanner: sees what they leave; None in the last pass.
        excerpts: how examples are taken.
    """

    steps: tuple[Step, ...]
    scanner: CorpusStep | None
    excerpts: Excerpts

    def __call__(self, documents: Sequence[Document]) -> BatchResult:
        """Works on one batch.

        Args:
            documents: in order.
        """
        left, tallies = list(documents), []
        for step in self.steps:
            left, tally = self._applied(step, left)
            tallies.append(tally)
        started = time.process_time()
        scans = [] if self.scanner is None else [self.scanner.scan(document) for document in left]
        return BatchResult(len(documents), left, scans, tallies, time.process_time() - started)

    def _applied(self, step: Step, documents: list[Document]) -> tuple[list[Document], Tally]:
        started = time.process_time()
        left, tally = [], Tally()
        for document in documents:
            outcome = step.apply(document)
            if outcome.text is not None and not outcome.text.strip():
                outcome = drop("no text left" if document.text.strip() else "no text", changes=outcome.changes)
            tally.add(document, outcome, self.excerpts)
            if outcome.text is not None:
                left.append(document if outcome.text == document.text else replace(document, text=outcome.text))
        tally.cpu_seconds = time.process_time() - started
        return left, tally


class Spill:
    """Batches on disk, written once and read once.

    Args:
        path: a file of its own.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")

    def write(self, batch: list[Document]) -> None:
        """Append a batch.

        Args:
            batch: left out when it is empty.
        """
        if batch:
            rows = [(document.number, document.where, document.text) for document in batch]
            pickle.dump(rows, self._file, protocol=pickle.HIGHEST_PROTOCOL)

    def read(self) -> Iterator[list[Document]]:
        """The batches in the order they were written; the file is removed behind the last."""
        self._file.close()
        with self._path.open("rb") as file:
            end = self._path.stat().st_size
            while file.tell() < end:
                yield [Document(*row) for row in pickle.load(file)]
        self._path.unlink()
