"""Records from files (plain text, JSON Lines, parquet), and from several sources.

Every source has the same shape: ``Source(config, seed=...)`` and ``records() -> Iterable[Record]``. The ones here
read as they go: memory does not grow with the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from llmstack.data.field_map import FieldMap
from llmstack.data.files import files_fingerprint, read_lines, resolve_files, text_chunks, too_long
from llmstack.data.jsonl import json_rows
from llmstack.data.kinds import RowReader
from llmstack.data.records import Record, TextRecord
from llmstack.data.tables import parquet_rows
from llmstack.errors import DataError
from llmstack.registry import SOURCES

if TYPE_CHECKING:
    from llmstack.config.data import ConcatConfig, JsonlConfig, ParquetConfig, TextFileConfig


class Source(Protocol):
    """What the source registry holds: a class built from its options and the recipe's seed."""

    def records(self) -> Iterable[Record]:
        """Every record, in a fixed order: a list, or an iterator that makes them one at a time.

        Called again it gives the same records again.
        """
        ...

    def fingerprint(self) -> str:
        """A text that changes whenever the same options would give other records."""
        ...


class TextFiles:
    """Plain text files: one document a file, or one a blank-line-separated block."""

    def __init__(self, config: TextFileConfig, *, seed: int) -> None:
        self._config = config

    def records(self) -> Iterator[Record]:
        """Every document, in file order; a file without text is passed over.

        Yields:
            One ``TextRecord`` a document.

        Raises:
            DataError: no file matches, a file is not UTF-8, a document is too long, or no file holds any text.
        """
        empty, limit = True, self._config.max_record_bytes
        for path in resolve_files(self._config.path):
            if self._config.split_documents == "file":
                documents = whole_text(path, max_bytes=limit)
            else:
                documents = blocks(path, max_bytes=limit)
            for line, text in documents:
                yield TextRecord(text, where=f"{path}:{line}")
                empty = False
        if empty:
            raise DataError(f"{self._config.path}: expected text, got only empty files. Name another.")

    def fingerprint(self) -> str:
        """Hash of the files' contents."""
        return files_fingerprint(self._config.path)


def whole_text(path: Path, *, max_bytes: int | None = None) -> Iterator[tuple[int, str]]:
    """A file as one document; nothing when it holds only blank lines.

    Args:
        path: the file.
        max_bytes: length above which it is refused; None: any length.

    Yields:
        1 and the text.

    Raises:
        DataError: the file cannot be read, is not UTF-8 or too long.
    """
    parts, size = list[str](), 0
    for _, part in text_chunks(path, max_bytes=max_bytes):
        size += len(part.encode())
        if max_bytes is not None and size > max_bytes:
            raise too_long(f"{path}:1", max_bytes)
        parts.append(part)
    text = "".join(parts)
    if text and not text.isspace():
        yield 1, text


def blocks(path: Path, *, max_bytes: int | None = None) -> Iterator[tuple[int, str]]:
    """The documents of a file that blank lines separate.

    Args:
        path: the file.
        max_bytes: length above which a document is refused; None: any length.

    Yields:
        First line number and text of each run of non-blank lines.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or a document is too long.
    """
    start, block, size = 0, list[str](), 0
    for number, line in chain(read_lines(path, max_bytes=max_bytes), [(0, "")]):
        if line and not line.isspace():
            if not block:
                start = number
            block.append(line)
            size += len(line.encode()) + 1
            if max_bytes is not None and size > max_bytes + 1:
                raise too_long(f"{path}:{start}", max_bytes)
        elif block:
            yield start, "\n".join(block)
            block, size = [], 0


class _Rows:
    """What the sources of rows in files share."""

    def __init__(self, config: JsonlConfig | ParquetConfig, *, seed: int) -> None:
        self._path, self._max_bytes = config.path, config.max_record_bytes
        self._reader = RowReader(config.record, FieldMap(config.fields))

    def fingerprint(self) -> str:
        """Hash of the files' contents."""
        return files_fingerprint(self._path)


class Jsonl(_Rows):
    """One JSON object a line, of one record kind; ``fields`` maps our names to the file's."""

    def records(self) -> Iterator[Record]:
        """Every line as a record, in file order; blank lines are skipped.

        Yields:
            Records of the configured kind.

        Raises:
            DataError: no file matches, a line is too long or not a JSON object, a field is missing or of another type
                (each with file and line), or there is no record at all.
        """
        return map(self._reader.record, json_rows(self._path, self._reader.fields, max_bytes=self._max_bytes))


class ParquetFiles(_Rows):
    """Parquet files, whose rows are of one record kind; ``fields`` maps our names to the columns'."""

    def records(self) -> Iterator[Record]:
        """Every row as a record, in file order.

        Yields:
            Records of the configured kind.

        Raises:
            DataError: no file matches, a file is damaged, a row is too long, a field is missing or of another type
                (each with file and number of the row), or there is no record at all.
        """
        empty = True
        for path in resolve_files(self._path):
            for row in parquet_rows(path, self._reader.fields, self._reader.known, max_bytes=self._max_bytes):
                yield self._reader.record(row)
                empty = False
        if empty:
            raise DataError(f"{self._path}: expected at least one row, got an empty data set. Name another.")


class Concat:
    """Several sources, one after the other."""

    def __init__(self, config: ConcatConfig, *, seed: int) -> None:
        self._sources = {name: SOURCES.get(part.source)(part, seed=seed) for name, part in config.of.items()}

    def records(self) -> Iterator[Record]:
        """The records of the first source, then those of the second, and so on.

        Yields:
            What the sources hand out.
        """
        for source in self._sources.values():
            yield from source.records()

    def fingerprint(self) -> str:
        """Those of the sources, in order."""
        return " ".join(source.fingerprint() for source in self._sources.values())
