from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.records import (
    LabelledRecord,
    Message,
    MessagesRecord,
    PreferenceRecord,
    PromptRecord,
    Record,
    ResponseRecord,
    TextRecord,
    TokensRecord,
    record_texts,
    require,
    required,
)
from llmstack.errors import DataError


def test_require_accepts_the_named_kinds() -> None:
    records = [ResponseRecord("a", "b"), MessagesRecord((Message("user", "a"),))]
    assert require(records, (ResponseRecord, MessagesRecord), used_for="chat rows") == records


def test_require_refuses_an_empty_data_set() -> None:
    with pytest.raises(DataError, match=r"expected at least one TextRecord \(text\) for rows, got an empty data set"):
        require(iter([]), (TextRecord,), used_for="rows")


def test_require_names_the_place_of_a_wrong_kind() -> None:
    message = r"x\.jsonl:3: expected TextRecord \(text\) for rows, got a prompt record \(prompt\)\. Choose a source"
    with pytest.raises(DataError, match=message):
        require([TextRecord("a"), PromptRecord("p", where="x.jsonl:3")], (TextRecord,), used_for="rows")
    pairs = required(
        [PreferenceRecord("p", "c", "r"), TextRecord("a", where="f:12")], (PreferenceRecord,), used_for="x"
    )
    assert next(pairs) == PreferenceRecord("p", "c", "r")
    message = r"f:12: expected PreferenceRecord \(prompt, chosen, rejected\) for x, got a text record \(text\)"
    with pytest.raises(DataError, match=message):
        next(pairs)


def test_a_prompt_is_turns_and_one_text() -> None:
    turns = (Message("system", "s"), Message("user", "u"))
    for kind in (lambda prompt: PreferenceRecord(prompt, "c", "r"), PromptRecord):
        assert kind("p").prompt_messages == (Message("user", "p"),)
        assert kind("p").prompt_text == "p"
        assert kind(turns).prompt_messages == turns
        assert kind(turns).prompt_text == "system: s\n\nuser: u"
    assert ResponseRecord("p", "r").messages == (Message("user", "p"), Message("assistant", "r"))


def test_a_turn_has_its_extra_keys() -> None:
    assert Message("user", "u").as_turn() == {"role": "user", "content": "u"}
    turn = Message("assistant", "", '{"content": null, "tool_calls": [{"a": 1}]}').as_turn()
    assert turn == {"role": "assistant", "content": None, "tool_calls": [{"a": 1}]}


def test_token_records_are_compared_by_their_ids() -> None:
    one, same = TokensRecord(np.array([1, 2], np.uint16), where="a"), TokensRecord(np.array([1, 2], np.int32))
    assert one == same and hash(one) == hash(same)
    assert one != TokensRecord(np.array([1, 3])) and one != TextRecord("a")


def test_where_does_not_decide_equality() -> None:
    assert TextRecord("a", where="x:1") == TextRecord("a", where="y:2")


@pytest.mark.parametrize(
    ("record", "texts"),
    [
        (TextRecord("a"), ("a",)),
        (TextRecord(""), ()),
        (ResponseRecord("p", "r"), ("p", "r")),
        (MessagesRecord((Message("user", "u"), Message("assistant", "a"))), ("u", "a")),
        (MessagesRecord((Message("assistant", "", '{"name": "x"}'),), "[{}]"), ("[{}]", '{"name": "x"}')),
        (PreferenceRecord("p", "c", "r"), ("p", "c", "r")),
        (PreferenceRecord((Message("system", "s"), Message("user", "u")), "c", "r"), ("s", "u", "c", "r")),
        (LabelledRecord("p", "r", True), ("p", "r")),
        (PromptRecord("p"), ("p",)),
        (PromptRecord("p", "answer"), ("p", "answer")),
    ],
)
def test_record_texts(record: Record, texts: tuple[str, ...]) -> None:
    assert record_texts(record) == texts


def test_record_texts_refuses_an_unknown_kind() -> None:
    with pytest.raises(DataError, match="expected a record with text, got Record"):
        record_texts(Record())
    with pytest.raises(DataError, match="f: expected a record with text, got TokensRecord"):
        record_texts(TokensRecord(np.arange(3), where="f"))
