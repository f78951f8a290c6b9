from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from llmstack.data.field_map import FieldMap
from llmstack.data.tables import batch_rows, columns_read, parquet_rows, table_rows
from llmstack.errors import DataError


def test_columns_that_nobody_reads_are_left_out() -> None:
    fields = FieldMap({"prompt": "{q}{data.x}", "answer": "a.b"})
    names = ("id", "q", "data", "a.b", "tools")
    assert columns_read(names, fields, ("prompt", "answer", "tools")) == ["q", "data", "a.b", "tools"]
    assert columns_read(("id", "x"), fields, ("prompt",)) == ["id", "x"]


def test_as_many_rows_at_once_as_fit() -> None:
    assert batch_rows(1000, 1000) == 1024
    assert batch_rows(8_000_000_000, 100_000) == 100
    assert batch_rows(10**12, 3) == 1
    assert batch_rows(0, 0) == 1


def test_rows_know_their_number_and_all_columns() -> None:
    batches = [pyarrow.record_batch({"a": [1, 2]}), pyarrow.record_batch({"a": [None]})]
    rows = list(table_rows(batches, "x", FieldMap(), ("a", "b"), max_bytes=1000))
    assert [(row.value, row.where) for row in rows] == [({"a": 1}, "x:1"), ({"a": 2}, "x:2"), ({"a": None}, "x:3")]
    with pytest.raises(DataError, match="x:1: expected field 'c', got fields 'a', 'b'"):
        rows[0].text("c")


def test_a_row_above_the_limit_is_named() -> None:
    batches = [pyarrow.record_batch({"a": ["x"]}), pyarrow.record_batch({"a": ["x" * 60, "y" * 100]})]
    assert len(list(table_rows(batches, "x", FieldMap(), ("a",), max_bytes=108))) == 3
    with pytest.raises(DataError, match="x:3: expected a record of at most 90 bytes"):
        list(table_rows(batches, "x", FieldMap(), ("a",), max_bytes=90))


def test_parquet_rows_come_from_all_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"a": list(range(10)), "b": ["x"] * 10}), path, row_group_size=3)
    rows = list(parquet_rows(path, FieldMap(), ("a",), max_bytes=1000))
    assert [row.value for row in rows] == [{"a": number} for number in range(10)]
    assert rows[9].where == f"{path}:10"


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": [f"{row} " * 200 for row in range(40_000)]})
    size = table.nbytes
    parquet.write_table(table, path, row_group_size=10_000, use_dictionary=False)
    del table
    before, peak = pyarrow.total_allocated_bytes(), 0
    for _ in parquet_rows(path, FieldMap(), ("text",), max_bytes=10_000):
        peak = max(peak, pyarrow.total_allocated_bytes() - before)
    assert size > 40_000_000
    assert peak < size / 2


@pytest.mark.parametrize("damage", [lambda data: data[:-10], lambda data: b"text", lambda data: b""])
def test_a_damaged_parquet_file_is_named(tmp_path: Path, damage) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"a": ["x"] * 100}), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"a\.parquet: expected a whole parquet file, got .*Make or copy"):
        list(parquet_rows(path, FieldMap(), ("a",), max_bytes=1000))


def test_damage_behind_the_first_rows_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"a": [str(number) * 50 for number in range(20_000)]})
    parquet.write_table(table, path, row_group_size=2000, use_dictionary=False)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = b"\0" * 2000
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet: expected a whole parquet file"):
        list(parquet_rows(path, FieldMap(), ("a",), max_bytes=1000))
