from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmstack.data.jsonl import JsonRow, json_rows
from llmstack.data.records import Message
from llmstack.errors import DataError


def row(**value: object) -> JsonRow:
    return JsonRow(value, "f:1", {"prompt": "question"}, mapping="--field {ours}=NAME")


def test_rows_know_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(["", json.dumps({"a": 1}), " ", json.dumps({"a": 2})]))
    assert [(r.value, r.where) for r in json_rows(str(path), {})] == [({"a": 1}, f"{path}:2"), ({"a": 2}, f"{path}:4")]


def test_a_file_without_objects_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n \n")
    with pytest.raises(DataError, match="expected at least one JSON object, got an empty data set"):
        list(json_rows(str(tmp_path / "a.jsonl"), {}))


def test_fields_go_by_the_files_names() -> None:
    assert row(question="q").text("prompt") == "q"
    assert row(question="q", prompt="p").name("prompt") == "question"
    assert row(prompt="p").has("prompt") and not row().has("answer")


def test_a_missing_field_says_how_to_map_it() -> None:
    with pytest.raises(
        DataError, match="f:1: expected field 'answer', got fields 'a'. .* map it with --field answer=NAME"
    ):
        row(a=1).get("answer")


def test_kinds_of_values() -> None:
    assert row(choices=["a", "b"]).texts("choices") == ("a", "b")
    assert row(n=2).number("n", 0.5) == 2.0
    assert row().number("n", 0.5) == 0.5
    assert row(answer=None).optional_text("answer") is None
    turns = [{"role": "user", "content": "u"}]
    assert row(messages=turns).messages("messages") == (Message("user", "u"),)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: row(t=3).text("t"), "f:1: expected a string in 't', got int 3"),
        (lambda: row(t="a\ud800").text("t"), "f:1: expected a string of whole characters in 't', got half of a"),
        (lambda: row(t="ab").texts("t"), "f:1: expected a non-empty list in 't', got 'ab'"),
        (lambda: row(t=[]).texts("t"), "expected a non-empty list in 't'"),
        (lambda: row(t=["a", 1]).texts("t"), r"expected a string in 't\[1\]', got int 1"),
        (lambda: row(t=True).number("t", 0.0), "expected a finite number in 't', got True"),
        (lambda: row(t=[{"role": "user"}]).messages("t"), r"expected an object with role and content in t\[0\]"),
    ],
)
def test_other_values_are_refused(read, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read()
