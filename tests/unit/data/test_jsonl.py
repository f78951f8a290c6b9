from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmstack.data.field_map import FieldMap
from llmstack.data.jsonl import json_rows
from llmstack.errors import DataError


def test_rows_know_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(["", json.dumps({"a": 1}), " ", json.dumps({"a": 2})]))
    found = [(row.value, row.where) for row in json_rows(str(path), FieldMap())]
    assert found == [({"a": 1}, f"{path}:2"), ({"a": 2}, f"{path}:4")]


def test_files_of_a_glob_follow_each_other(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"name": "{name}"}}')
    assert [row.text("name") for row in json_rows(str(tmp_path / "*"), FieldMap())] == ["a", "b"]


def test_a_file_without_objects_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n \n")
    with pytest.raises(DataError, match="expected at least one JSON object, got an empty data set"):
        list(json_rows(str(tmp_path / "a.jsonl"), FieldMap()))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": 1', r"malformed JSON \(Expecting ',' delimiter at column 8\)"),
        ("[" * 100_000, r"malformed JSON \(maximum recursion"),
        ('{"a": ' + "1" * 5000 + "}", r"malformed JSON \(Exceeds the limit"),
        ("3", "a int"),
    ],
)
def test_a_line_that_is_no_object_is_refused(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"a": 0}}\n{line}\n')
    with pytest.raises(DataError, match=rf"a\.jsonl:2: expected one JSON object, got {reason}"):
        list(json_rows(str(tmp_path / "a.jsonl"), FieldMap()))
