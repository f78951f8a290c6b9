"""Records from MindRecord files, read by MindSpore's own reader: the one data source that imports MindSpore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.files import hash_contents, resolve_files, too_long
from llmstack.data.kinds import RowReader
from llmstack.data.records import Record
from llmstack.errors import DataError
from llmstack.runtime.device import use_python_protobuf

if TYPE_CHECKING:
    from llmstack.config.data import MindRecordConfig


class MindRecordFiles:
    """MindRecord files, whose rows are of one record kind; ``fields`` maps our names to the schema's."""

    def __init__(self, config: MindRecordConfig, *, seed: int) -> None:
        self._path, self._max_bytes = config.path, config.max_record_bytes
        self._reader = RowReader(config.record, FieldMap(config.fields))

    def records(self) -> Iterator[Record]:
        """Every row as a record, in file order.

        Yields:
            Records of the configured kind, whose place is ``file:number``, numbers from 1.

        Raises:
            DataError: no file matches, a file is damaged or has no index beside it, a row is too long, a field is
                missing or of another type, or there is no record at all.
        """
        empty = True
        for path in self._files():
            for number, value in enumerate(_rows(path), start=1):
                where = f"{path}:{number}"
                if sum(map(_num_bytes, value.values())) > self._max_bytes:
                    raise too_long(where, self._max_bytes)
                yield self._reader.record(FieldRow(value, where, self._reader.fields))
                empty = False
        if empty:
            raise DataError(f"{self._path}: expected at least one row, got an empty data set. Name another.")

    def fingerprint(self) -> str:
        """Hash of the files' contents."""
        return hash_contents(self._files())

    def _files(self) -> list[Path]:
        """The files themselves: a glob may find their indexes too."""
        return [path for path in resolve_files(self._path) if path.suffix != ".db"]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    use_python_protobuf()
    from mindspore.mindrecord import FileReader
    from mindspore.mindrecord.common.exceptions import MindRecordException

    try:
        # a list, because of a single name the reader would also take the other files of its set
        reader = FileReader([str(path)], num_consumer=1)
        try:
            yield from reader.get_next()
        finally:
            reader.close()
    except (RuntimeError, OSError, MindRecordException) as error:
        raise DataError(
            f"{path}: expected a whole MindRecord file with its index {path.name}.db beside it, got {_reason(error)}. "
            "Copy both again under the names they were made with, or make them again."
        ) from error


def _reason(error: Exception) -> str:
    """The line of one of MindSpore's long messages that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")] or [type(error).__name__]
    told = [line.removeprefix("[ERROR] ") for line in lines if line.startswith("[ERROR]")]
    return (told or lines)[0].rstrip(".")


def _num_bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    return getattr(value, "nbytes", 0) or (len(value) if isinstance(value, bytes) else 8)
