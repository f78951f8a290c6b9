"""Encoding a source: in this process while it is small, in worker processes when it is not; the result is the same."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from tqdm import tqdm  # type: ignore[import-untyped]

from llmstack.data.documents import Encoded
from llmstack.data.encode import ENCODERS, Kind
from llmstack.data.records import Record
from llmstack.data.tokenizer import Tokenizer
from llmstack.data.workers import Workers

_CHUNK_RECORDS, _CHUNK_CHARS = 2048, 1 << 20
# starting a worker costs a second or two, about what this much text costs here
_CHARS_HERE = 16 << 20


def encode_records(
    records: Iterable[Record], kind: Kind, tokenizer: Tokenizer, *, workers: int | None = None, show: str | None = None
) -> Iterator[Encoded]:
    """Encode records in their order.

    Args:
        records: may be endless in memory's eyes: only a few chunks are held at a time.
        kind: what they are.
        tokenizer: gives the ids.
        workers: processes that encode, 0 or 1: this one; None: as many as there are cores once the data is known to be
            large.
        show: label of a progress bar; None shows none.

    Yields:
        Encoded chunks.

    Raises:
        DataError: a record is wrong.
        LlmstackError: a worker was killed.
    """
    chunks = _chunks(records)
    if workers is None:
        first = list(_up_to(chunks, _CHARS_HERE))
        here, rest = (ENCODERS[kind](part, tokenizer) for part in first), _peek(chunks)
        encoded: Iterator[Encoded] = (
            here if rest is None else chain(here, _elsewhere(rest, kind, tokenizer, os.cpu_count() or 1))
        )
    elif workers <= 1:
        encoded = (ENCODERS[kind](chunk, tokenizer) for chunk in chunks)
    else:
        encoded = _elsewhere(chunks, kind, tokenizer, workers)
    yield from encoded if show is None else _shown(encoded, show)


def _shown(encoded: Iterable[Encoded], label: str) -> Iterator[Encoded]:
    with tqdm(desc=label, unit=" tokens", unit_scale=True, delay=1.0, dynamic_ncols=True, disable=None) as bar:
        for chunk in encoded:
            yield chunk
            bar.update(len(chunk.ids))


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += _size(record)
        if len(chunk) >= _CHUNK_RECORDS or size >= _CHUNK_CHARS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _up_to(chunks: Iterator[list[Record]], chars: int) -> Iterator[list[Record]]:
    while chars > 0 and (chunk := next(chunks, None)) is not None:
        chars -= sum(map(_size, chunk))
        yield chunk


def _size(record: Record) -> int:
    """Characters of a record, or ids of one that has these, roughly."""
    size = 0
    for name, value in vars(record).items():
        if name == "where":
            continue
        if isinstance(value, np.ndarray):
            size += value.size
        parts = value if isinstance(value, tuple) else (value,)
        size += sum(len(text) for text in (getattr(part, "content", part) for part in parts) if isinstance(text, str))
    return size


def _peek(chunks: Iterator[list[Record]]) -> Iterator[list[Record]] | None:
    first = next(chunks, None)
    return None if first is None else chain([first], chunks)


@dataclass
class _Encode:
    """The encoder with its tokenizer, which is read from its folder where the work is done."""

    kind: Kind
    folder: str
    tokenizer: Tokenizer | None = None

    def __call__(self, records: list[Record]) -> Encoded:
        if self.tokenizer is None:
            if multiprocessing.parent_process() is not None:  # the processes are the parallelism
                os.environ["TOKENIZERS_PARALLELISM"] = "false"
            self.tokenizer = Tokenizer.load(self.folder)
        return ENCODERS[self.kind](records, self.tokenizer)


def _elsewhere(chunks: Iterator[list[Record]], kind: Kind, tokenizer: Tokenizer, workers: int) -> Iterator[Encoded]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        with Workers(workers, Path(folder)) as pool:
            yield from pool.map(_Encode(kind, folder), chunks)
