"""Rows of Arrow tables, which parquet files and Hugging Face datasets are read as."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.files import BLOCK_BYTES, too_long
from llmstack.errors import DataError

_BATCH_BYTES, _BATCH_ROWS = 8_000_000, 1024


def parquet_rows(path: Path, fields: FieldMap, known: Collection[str], *, max_bytes: int) -> Iterator[FieldRow]:
    """The rows of a parquet file, some of a row group at a time; columns that nobody reads stay on the disk.

    Args:
        path: the file.
        fields: what the file calls our fields.
        known: our names of all fields that may be read.
        max_bytes: size above which a row is refused.

    Yields:
        The rows, whose place is ``file:number``, numbers from 1.

    Raises:
        DataError: the file cannot be read, is damaged, or has a longer row.
    """
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=BLOCK_BYTES) as file:
            names = file.schema_arrow.names
            batches = _batches(file, columns_read(names, fields, known))
            yield from table_rows(batches, str(path), fields, names, max_bytes=max_bytes)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: expected a whole parquet file, got {error}. Make or copy the file again.") from error


def columns_read(names: Sequence[str], fields: FieldMap, known: Collection[str]) -> list[str]:
    """Which columns of a table to read.

    Args:
        names: all its columns.
        fields: what the table calls our fields.
        known: our names of all fields that may be read.

    Returns:
        Some of ``names``; all of them when none is wanted, so that a message can be about the first row.
    """
    wanted = fields.columns(known)
    return [name for name in names if name in wanted] or list(names)


def batch_rows(num_bytes: int, num_rows: int) -> int:
    """How many rows of a table to hold in memory at once.

    Args:
        num_bytes: size of the table, unpacked.
        num_rows: its rows.
    """
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * num_rows // max(num_bytes, 1)))


def table_rows(
    batches: Iterable[Any], place: str, fields: FieldMap, names: Sequence[str], *, max_bytes: int
) -> Iterator[FieldRow]:
    """The rows of a table.

    Args:
        batches: its parts, Arrow tables or record batches.
        place: what the number of a row is put behind.
        fields: what the table calls our fields.
        names: all columns of the table, for messages.
        max_bytes: size above which a row is refused.

    Yields:
        The rows.

    Raises:
        DataError: a row is longer than the limit.
    """
    number = 0
    for batch in batches:
        if batch.nbytes > max_bytes:
            for index in range(batch.num_rows):
                if batch.slice(index, 1).nbytes > max_bytes:
                    raise too_long(f"{place}:{number + index + 1}", max_bytes)
        for value in batch.to_pylist():
            number += 1
            yield FieldRow(value, f"{place}:{number}", fields, names=names)


def _batches(file: Any, columns: list[str]) -> Iterator[Any]:
    for index in range(file.num_row_groups):
        group = file.metadata.row_group(index)
        rows = batch_rows(group.total_byte_size, group.num_rows)
        yield from file.iter_batches(batch_size=rows, row_groups=[index], columns=columns, use_threads=False)
