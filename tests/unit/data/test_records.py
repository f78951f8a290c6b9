from __future__ import annotations

import pytest

from llmstack.data.records import (
    Message,
    MessagesRecord,
    PreferenceRecord,
    PromptRecord,
    Record,
    ResponseRecord,
    TextRecord,
    record_texts,
    require,
)
from llmstack.errors import DataError


def test_require_accepts_the_named_kinds() -> None:
    records = [ResponseRecord("a", "b"), MessagesRecord((Message("user", "a"),))]
    assert require(records, (ResponseRecord, MessagesRecord), used_for="chat rows") == records


def test_require_refuses_an_empty_data_set() -> None:
    with pytest.raises(DataError, match="expected at least one TextRecord for rows, got an empty data set"):
        require([], (TextRecord,), used_for="rows")


def test_require_names_the_place_of_a_wrong_kind() -> None:
    with pytest.raises(DataError, match="x.jsonl:3: expected TextRecord for rows, got PromptRecord"):
        require([TextRecord("a"), PromptRecord("p", where="x.jsonl:3")], (TextRecord,), used_for="rows")


def test_where_does_not_decide_equality() -> None:
    assert TextRecord("a", where="x:1") == TextRecord("a", where="y:2")


@pytest.mark.parametrize(
    ("record", "texts"),
    [
        (TextRecord("a"), ("a",)),
        (TextRecord(""), ()),
        (ResponseRecord("p", "r"), ("p", "r")),
        (MessagesRecord((Message("user", "u"), Message("assistant", "a"))), ("u", "a")),
        (PreferenceRecord("p", "c", "r"), ("p", "c", "r")),
        (PromptRecord("p"), ("p",)),
        (PromptRecord("p", "answer"), ("p", "answer")),
    ],
)
def test_record_texts(record: Record, texts: tuple[str, ...]) -> None:
    assert record_texts(record) == texts


def test_record_texts_refuses_an_unknown_kind() -> None:
    with pytest.raises(DataError, match="expected a record with text, got Record"):
        record_texts(Record())
