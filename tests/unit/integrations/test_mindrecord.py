from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from llmstack.config.data import MindRecordConfig
from llmstack.data.records import Record, ResponseRecord, TextRecord
from llmstack.errors import DataError
from llmstack.integrations.mindrecord import MindRecordFiles

SCHEMA = {"body": {"type": "string"}, "id": {"type": "int64"}}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A set of two files, and one file of another set."""
    from mindspore.mindrecord import FileWriter

    folder = tmp_path_factory.mktemp("mindrecord")
    for name, shards, rows in (("set.mindrecord", 2, 10), ("one.mindrecord", 1, 3)):
        writer = FileWriter(str(folder / name), shards)
        writer.add_schema(SCHEMA, "texts")
        writer.write_raw_data([{"body": f"{name} {row} \u00e9\n", "id": row} for row in range(rows)])
        writer.commit()
    return folder


def source(path: Path, **options: Any) -> MindRecordFiles:
    values = {"record": "text", "fields": {"text": "body"}, **options}
    return MindRecordFiles(MindRecordConfig(source="mindrecord", path=str(path), **values), seed=0)


def records(path: Path, **options: Any) -> list[Record]:
    return list(source(path, **options).records())


def test_rows_become_records_in_order(made: Path) -> None:
    found = records(made / "one.mindrecord")
    assert found == [TextRecord(f"one.mindrecord {row} \u00e9\n") for row in range(3)]
    assert found[1].where == f"{made / 'one.mindrecord'}:2"
    mapped = {"prompt": "{id}?", "response": "body"}
    assert records(made / "one.mindrecord", record="prompt_response", fields=mapped)[2] == ResponseRecord(
        "2?", "one.mindrecord 2 \u00e9\n"
    )
    again = source(made / "one.mindrecord")
    assert list(again.records()) == list(again.records())


def test_a_glob_takes_each_file_of_a_set_once(made: Path) -> None:
    found = records(made / "set.mindrecord*")
    assert sorted(record.text for record in found) == [f"set.mindrecord {row} \u00e9\n" for row in range(10)]
    first, second = records(made / "set.mindrecord0"), records(made / "set.mindrecord1")
    assert 0 < len(first) < 10 and found == [*first, *second]


def test_a_reader_may_stop_early(made: Path) -> None:
    rows = source(made / "one.mindrecord").records()
    next(rows)
    rows.close()
    assert len(records(made / "one.mindrecord")) == 3


def test_a_fingerprint_needs_no_mindspore(made: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mindspore.mindrecord", None)
    assert source(made / "set.mindrecord0").fingerprint() != source(made / "set.mindrecord*").fingerprint()


def test_rows_that_do_not_fit_are_named(made: Path) -> None:
    with pytest.raises(
        DataError, match=r"one\.mindrecord:1: expected field 'text', got fields '(id|body)', '(id|body)'"
    ):
        records(made / "one.mindrecord", fields={})
    with pytest.raises(DataError, match=r"one\.mindrecord:1: expected a record of at most 10 bytes"):
        records(made / "one.mindrecord", max_record_bytes=10)


def copy(folder: Path, made: Path, damage: Any = None, *, index: bool = True) -> Path:
    data = (made / "one.mindrecord").read_bytes()
    (folder / "one.mindrecord").write_bytes(damage(data) if damage else data)
    if index:
        (folder / "one.mindrecord.db").write_bytes((made / "one.mindrecord.db").read_bytes())
    return folder / "one.mindrecord"


def test_damaged_files_are_named(made: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"one\.mindrecord: expected a whole MindRecord file .* got .*not exist"):
        records(copy(tmp_path, made, index=False))
    with pytest.raises(DataError, match=r"one\.mindrecord: .* got Invalid file, the size of mindrecord file: 4"):
        records(copy(tmp_path, made, lambda data: b"text"))
    renamed = copy(tmp_path, made).rename(tmp_path / "other.mindrecord")
    (tmp_path / "one.mindrecord.db").rename(tmp_path / "other.mindrecord.db")
    with pytest.raises(DataError, match=r"other\.mindrecord: .* Copy both again under the names"):
        records(renamed)
    with pytest.raises(DataError, match="an existing file or a glob"):
        records(tmp_path / "none.mindrecord")
