"""A cleaning job: from a source to a folder with data and report."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmstack.data.clean.output import Writer
from llmstack.data.clean.personal_data import PersonalData
from llmstack.data.clean.pipeline import Listener, Pipeline
from llmstack.data.clean.report import Report
from llmstack.data.clean.step import CorpusStep, Document, Outcome, Step, keep
from llmstack.data.clean.tally import Excerpts
from llmstack.data.files import is_text
from llmstack.data.records import TextRecord
from llmstack.data.workers import Workers
from llmstack.errors import DataError
from llmstack.registry import CLEANERS, SOURCES

if TYPE_CHECKING:
    from llmstack.config.clean import CleanConfig, SliceConfig, StepConfig


class Read(Step):
    """The first step of every job: what the source gives. Documents without text go no further."""

    def apply(self, document: Document) -> Outcome:
        """Pass a document on.

        Args:
            document: as the source gave it.
        """
        return keep(document.text)


def clean(config: CleanConfig, folder: Path, *, resolved: Mapping[str, Any], listener: Listener) -> Report:
    """Clean a corpus.

    Args:
        config: the job.
        folder: an existing folder that gets the data and the report; no data when nothing is left.
        resolved: the configuration as the report shows it.
        listener: is told how far the work is.

    Returns:
        The report that was written.

    Raises:
        DataError: the source, an evaluation set or a word list cannot be read, a record is no text, or
            there is none.
    """
    started = time.perf_counter()
    steps = build_steps(config.steps, seed=config.seed)
    masks = [step for _, step in steps if isinstance(step, PersonalData)]
    # a document may be dropped, and shown, before the step that masks it
    excerpts = Excerpts(config.report.examples, config.report.excerpt_chars, masks[0].mask if masks else None)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".scratch-") as name, Writer(folder, config.shards) as out:
        scratch = Path(name)
        with Workers(config.workers or os.cpu_count() or 1, scratch) as workers:
            pipeline = Pipeline([("read", Read()), *steps], excerpts=excerpts, workers=workers, listener=listener)
            reports = pipeline.run(documents_of(config), scratch, out.write)
    if not reports[0].tally.documents_in:
        raise DataError("data: expected at least one document, got none. Check the source's options and `slice`.")
    if not out.num_documents:
        for path in out.paths:
            path.unlink()
    files = [path.name for path in out.paths] if out.num_documents else []
    report = Report(resolved, reports, files, time.perf_counter() - started)
    report.write(folder)
    return report


def build_steps(configs: Sequence[StepConfig], *, seed: int) -> list[tuple[str, Step | CorpusStep]]:
    """The steps of a job by kind.

    Args:
        configs: options of each.
        seed: of what is drawn or sampled in them.

    Returns:
        Kind and step, in order.

    Raises:
        DataError: a step cannot be used; the message begins with its path in the configuration.
    """
    steps = []
    for number, config in enumerate(configs):
        try:
            steps.append((config.kind, CLEANERS.get(config.kind)(config, seed=seed)))
        except DataError as error:
            raise DataError(f"steps.{number}.{error}") from error
    return steps


def documents_of(config: CleanConfig) -> Iterator[Document]:
    """The documents of a job's source, or of its slice.

    Args:
        config: the job.

    Raises:
        DataError: the source cannot be read, or a record is no text.
    """
    source = SOURCES.get(config.data.source)(config.data, seed=config.seed)
    for number, record in enumerate(source.records()):
        if not _is_mine(number, config.slice):
            continue
        where = record.where or f"document {number + 1}"
        if not isinstance(record, TextRecord):
            raise DataError(
                f"{where}: expected a text record for cleaning, got {type(record).__name__}. "
                "Choose another source, or `record: text` with a field map."
            )
        if not is_text(record.text):
            raise DataError(f"{where}: expected whole characters, got half of a surrogate pair. Correct the text.")
        yield Document(number, where, record.text)


def _is_mine(number: int, part: SliceConfig | None) -> bool:
    return part is None or number % part.of == part.index
