from __future__ import annotations

import datetime
import json

import pytest

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.records import Message
from llmstack.errors import DataError


def row(**value: object) -> FieldRow:
    return FieldRow(value, "f:1", FieldMap({"prompt": "question"}, mapping="--field {ours}=NAME"))


def mapped(fields: dict[str, str], **value: object) -> FieldRow:
    return FieldRow(value, "f:1", FieldMap(fields))


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
    assert row().number("n", 0.5) == row(n=None).number("n", 0.5) == 0.5
    assert row(answer=None).optional_text("answer") is None
    turns = [{"role": "user", "content": "u"}]
    assert row(messages=turns).messages("messages") == (Message("user", "u"),)


def test_a_template_is_filled_from_the_row() -> None:
    fields = {"text": "{{Q}} {question}\n{answer.text}, {n}"}
    assert mapped(fields, question="why", answer={"text": "so"}, n=3).text("text") == "{Q} why\nso, 3"
    assert mapped(fields).found("text") is False
    with pytest.raises(DataError, match="f:1: expected field 'answer.text', got fields 'question'"):
        mapped(fields, question="why").text("text")
    with pytest.raises(DataError, match="f:1: expected a string in 'question', got null"):
        mapped(fields, question=None).text("text")
    with pytest.raises(DataError, match="f:1: expected a string in 'n', got bool True"):
        mapped(fields, question="why", answer={"text": "so"}, n=True).text("text")


def test_a_dot_leads_into_an_object() -> None:
    fields = {"text": "message.content"}
    assert mapped(fields, message={"content": "a"}).text("text") == "a"
    assert mapped(fields, **{"message.content": "b", "message": {"content": "a"}}).text("text") == "b"
    for value in ({"message": {}}, {"message": "content"}, {"message": None}, {}):
        with pytest.raises(DataError, match="expected field 'message.content'"):
            mapped(fields, **value).text("text")


def test_a_message_names_all_fields_of_the_file() -> None:
    with pytest.raises(DataError, match="expected field 'text', got fields 'a', 'b'"):
        FieldRow({"a": 1}, "f:1", FieldMap(), names=("a", "b")).text("text")


CALL = {"type": "function", "function": {"name": "add", "arguments": {"b": 2, "a": 1}}}


def test_turns_keep_tool_calls_as_they_are() -> None:
    turns = [
        {"role": "user", "content": "1+2?", "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "content": "so:", "tool_calls": [CALL]},
        {"role": "tool", "content": "3", "tool_call_id": "x", "tool_calls": None},
        {"role": "assistant", "content": "3", "tool_calls": []},
    ]
    found = row(messages=turns).messages("messages")
    seen = [message.as_turn() for message in found]
    assert seen[0] == turns[0]
    assert seen[1] == turns[1] == seen[2]
    assert seen[3] == turns[3]
    assert seen[4] == {"role": "tool", "content": "3", "tool_call_id": "x"}
    assert seen[5] == {"role": "assistant", "content": "3"}
    assert found[1].content == ""
    assert len({*found, *row(messages=turns).messages("messages")}) == 5
    # the order of keys is the order a template writes them in
    assert json.dumps(seen[3]["tool_calls"]) == json.dumps([CALL])


def test_tools_are_a_list_or_its_text() -> None:
    schemas = [{"name": "\u00e9"}]
    assert json.loads(row(tools=schemas).tools("tools")) == schemas
    assert row(tools=json.dumps(schemas)).tools("tools") == row(tools=schemas).tools("tools")
    assert row(tools=None).tools("tools") == row().tools("tools") == row(tools=[]).tools("tools") == ""


def turn(**extra: object) -> tuple[Message, ...]:
    return row(t=[{"role": "assistant", "content": "a", **extra}]).messages("t")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: row(t=3).text("t"), "f:1: expected a string in 't', got int 3"),
        (lambda: row(t="a\ud800").text("t"), "f:1: expected a string of whole characters in 't', got half of a"),
        (lambda: row(t="ab").texts("t"), "f:1: expected a non-empty list in 't', got 'ab'"),
        (lambda: row(t=[]).texts("t"), "expected a non-empty list in 't'"),
        (lambda: row(t=["a", 1]).texts("t"), r"expected a string in 't\[1\]', got int 1"),
        (lambda: row(t=True).number("t", 0.0), "expected a finite number in 't', got True"),
        (lambda: row(t=None).text("t"), "f:1: expected a string in 't', got null"),
        (lambda: row(t=float("nan")).number("t", 0.0), "expected a finite number in 't', got nan"),
        (lambda: row(t=float("inf")).number("t", 0.0), "expected a finite number in 't', got inf"),
        (lambda: row(t="").some_text("t"), "f:1: expected some text in 't', got ''"),
        (lambda: row(t=" \n").some_text("t"), "f:1: expected some text in 't', got ' .n'"),
        (lambda: row(t="x" * 500).texts("t"), r"got 'x{76}\.\.\.\. Correct"),
        (lambda: row(t=[{"role": "user"}]).messages("t"), r"expected an object with role and content in t\[0\]"),
        (lambda: row(t=[{"role": "assistant", "tool_calls": []}]).messages("t"), "an object with role and content"),
        (lambda: row(t=[{"role": "user", "content": None}]).messages("t"), r"a string in 't\[0\]\.content', got null"),
        (lambda: turn(weight=1), r"only role, content, tool_calls, tool_call_id, name in t\[0\], got also weight"),
        (lambda: turn(name=3), r"a string in 't\[0\]\.name', got int 3"),
        (lambda: turn(tool_calls="add"), r"a list of objects in t\[0\]\.tool_calls, got 'add'"),
        (lambda: turn(tool_calls=["add"]), r"a list of objects in t\[0\]\.tool_calls, got \['add'\]"),
        (lambda: turn(tool_calls=[{"a": float("nan")}]), r"what JSON can hold in t\[0\], got Out of range float"),
        (lambda: turn(tool_calls=[{"a": datetime.date.min}]), r"what JSON can hold in t\[0\], got Object of type date"),
        (lambda: turn(tool_calls=[{"a": "\ud800"}]), r"a string of whole characters in 't\[0\]'"),
        (lambda: row(t="{").tools("t"), "expected a list of objects in 't', got '{'"),
        (lambda: row(t={"name": "add"}).tools("t"), "expected a list of objects in 't', got {'name'"),
        (lambda: row(t=["add"]).tools("t"), r"expected a list of objects in 't', got \['add'\]"),
    ],
)
def test_other_values_are_refused(read, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read()
