"""Hugging Face datasets that are on this machine: saved by the `datasets` library, or folders of files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.files import hash_contents, is_jsonl
from llmstack.data.jsonl import json_rows
from llmstack.data.kinds import RowReader
from llmstack.data.records import Record
from llmstack.data.tables import batch_rows, columns_read, parquet_rows, table_rows
from llmstack.errors import DataError
from llmstack.registry import did_you_mean

if TYPE_CHECKING:
    from llmstack.config.data import HfDatasetConfig

_SPLIT_WORDS = {"train": "train", "training": "train", "test": "test", "testing": "test", "validation": "validation"}
_SPLIT_WORDS |= {"valid": "validation", "val": "validation", "dev": "validation"}
"""Words of a file's name that say which split it holds."""


class HfDataset:
    """A folder made by ``save_to_disk``, or one of parquet and JSON Lines files; its rows are of one record kind."""

    def __init__(self, config: HfDatasetConfig, *, seed: int) -> None:
        self._folder, self._split, self._max_bytes = Path(config.path), config.split, config.max_record_bytes
        self._reader = RowReader(config.record, FieldMap(config.fields))

    def records(self) -> Iterator[Record]:
        """Every row of the split as a record, in order.

        Yields:
            Records of the configured kind.

        Raises:
            DataError: the folder holds no such split or is damaged, a row is too long, a field is missing or of another
                type (each with the place of the row), or there is no record at all.
        """
        saved = self._saved()
        rows = self._rows_of_files() if saved is None else self._rows_of_saved(saved)
        empty = True
        for row in rows:
            yield self._reader.record(row)
            empty = False
        if empty:
            raise DataError(f"{self._folder}: expected at least one row, got an empty data set. Name another.")

    def fingerprint(self) -> str:
        """Hash of the contents of the split's files."""
        saved = self._saved()
        return hash_contents(self._files() if saved is None else sorted(saved.glob("*.arrow")))

    def _saved(self) -> Path | None:
        """The folder of one split that ``save_to_disk`` made; None when the folder was not made by it."""
        index = self._folder / "dataset_dict.json"
        if index.is_file():
            try:
                splits = list(json.loads(index.read_text(encoding="utf-8"))["splits"])
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f"{index}: expected a list of splits, got {error}. It is damaged: save the data set again."
                ) from error
            return self._folder / self._chosen(splits)
        if (self._folder / "state.json").is_file():
            if self._split is not None:
                raise DataError(
                    f"{self._folder}: expected no `split` for a data set that was saved without splits, got "
                    f"{self._split!r}. Remove it."
                )
            return self._folder
        return None

    def _chosen(self, splits: list[str]) -> str:
        """The split that is meant."""
        if self._split in splits:
            return str(self._split)
        if self._split is None and len(splits) == 1:
            return splits[0]
        found = "no `split`" if self._split is None else f"{self._split!r}"
        fix = (self._split and did_you_mean(self._split, splits)) or "Choose one of these as `split`."
        raise DataError(f"{self._folder}: expected one of its splits {', '.join(splits)}, got {found}. {fix}")

    def _rows_of_saved(self, folder: Path) -> Iterator[FieldRow]:
        import datasets  # type: ignore[import-untyped]
        import pyarrow  # type: ignore[import-untyped]

        try:
            found = datasets.load_from_disk(str(folder))
            names, size = found.column_names, batch_rows(found.data.nbytes, len(found))
            read = found.select_columns(columns_read(names, self._reader.fields, self._reader.known))
            batches = read.with_format("arrow").iter(size)
            yield from table_rows(batches, str(folder), self._reader.fields, names, max_bytes=self._max_bytes)
        except (OSError, ValueError, KeyError, TypeError, pyarrow.ArrowException) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"{folder}: expected a data set that save_to_disk made, got {type(error).__name__} ({error}). "
                "It is damaged: save it again."
            ) from error

    def _rows_of_files(self) -> Iterator[FieldRow]:
        fields, known = self._reader.fields, self._reader.known
        for path in self._files():
            if path.suffix == ".parquet":
                yield from parquet_rows(path, fields, known, max_bytes=self._max_bytes)
            elif path.stat().st_size:
                yield from json_rows(str(path), fields, max_bytes=self._max_bytes)

    def _files(self) -> list[Path]:
        """The files of the split, in the order of their names."""
        found = [
            path
            for path in sorted(self._folder.rglob("*"))
            if path.is_file() and (path.suffix == ".parquet" or is_jsonl(path.name)) and not path.name.startswith(".")
        ]
        if not found:
            raise DataError(
                f"{self._folder}: expected what save_to_disk made, or .parquet or .jsonl files, got neither. "
                "Correct the path."
            )
        if self._split is None:
            named = {_split_word(path.relative_to(self._folder)) for path in found}
            if len(named) > 1:
                self._chosen(sorted(name or "others" for name in named))
            return found
        chosen = [path for path in found if _is_of(path.relative_to(self._folder), self._split)]
        if not chosen:
            names = ", ".join(str(path.relative_to(self._folder)) for path in found[:5])
            raise DataError(
                f"{self._folder}: expected files of the split {self._split!r} ({self._split}.jsonl, "
                f"{self._split}-00000-of-00001.parquet, {self._split}/...), got {names}. Correct `split`."
            )
        return chosen


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _is_of(path: Path, split: str) -> bool:
    """Whether a file belongs to a split: by its name, without the number of a part, or by a folder's."""
    return split in path.parts[:-1] or re.sub(r"([-_]\d+)+(-of-\d+)?$", "", _stem(path)) == split


def _split_word(path: Path) -> str | None:
    """The split that a word in a file's name, or in a folder's, tells of."""
    words = re.split(r"[^a-z]+", " ".join([*path.parts[:-1], _stem(path)]).lower())
    return next((_SPLIT_WORDS[word] for word in words if word in _SPLIT_WORDS), None)
