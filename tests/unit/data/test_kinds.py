from __future__ import annotations

from typing import get_args

import pytest

from llmstack.config.data import JsonlConfig
from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.kinds import KINDS, RowReader
from llmstack.data.records import (
    LabelledRecord,
    Message,
    MessagesRecord,
    PreferenceRecord,
    PromptRecord,
    Record,
    ResponseRecord,
    TextRecord,
)
from llmstack.errors import DataError

USER, YES, NO = (
    {"role": "user", "content": "u"},
    {"role": "assistant", "content": "y"},
    {"role": "assistant", "content": "n"},
)
SYSTEM = {"role": "system", "content": "s"}
TOOLS = [{"name": "add"}]


def record(kind: str, fields: dict[str, str] | None = None, **value: object) -> Record:
    names = FieldMap(fields)
    return RowReader(kind, names).record(FieldRow(value, "f:1", names))


def turns(*items: dict) -> tuple[Message, ...]:
    return tuple(Message(item["role"], item["content"]) for item in items)


def test_every_kind_can_be_configured() -> None:
    assert set(get_args(JsonlConfig.model_fields["record"].annotation)) == set(KINDS)


def test_kinds() -> None:
    assert record("text", text="t", id=1) == TextRecord("t")
    assert record("text", text="") == TextRecord("")
    assert record("prompt_response", prompt="p", response="r") == ResponseRecord("p", "r")
    assert record("messages", messages=[USER, YES]) == MessagesRecord(turns(USER, YES))
    assert record("messages", messages=[USER, YES], tools=TOOLS) == MessagesRecord(
        turns(USER, YES), '[{"name": "add"}]'
    )
    assert record("prompt", prompt="p") == PromptRecord("p", None)
    assert record("prompt", prompt="p", answer="a", tools=None) == PromptRecord("p", "a")
    assert record("prompt", prompt=[SYSTEM, USER], answer=None, tools=TOOLS) == PromptRecord(
        turns(SYSTEM, USER), None, '[{"name": "add"}]'
    )
    assert record("text", text="t").where == "f:1"
    assert record("labelled", prompt="p", response="r", label=True) == LabelledRecord("p", "r", True)
    assert record("labelled", prompt=[USER], response="r", label=0) == LabelledRecord(turns(USER), "r", False)


@pytest.mark.parametrize("label", ["good", 2, None, 0.5], ids=str)
def test_a_label_is_true_or_false(label: object) -> None:
    with pytest.raises(DataError, match=r"f:1: expected true or false \(or 1 or 0\) in 'label', got "):
        record("labelled", prompt="p", response="r", label=label)


def test_preferences_as_texts() -> None:
    pair = {"prompt": "p", "chosen": "c", "rejected": "r"}
    assert record("preference", **pair) == PreferenceRecord("p", "c", "r", 0.0)
    assert record("preference", **pair, margin=2) == PreferenceRecord("p", "c", "r", 2.0)
    assert record("preference", **{**pair, "prompt": [SYSTEM, USER]}) == PreferenceRecord(turns(SYSTEM, USER), "c", "r")


@pytest.mark.parametrize(
    "prompt", [{}, {"prompt": None}, {"prompt": [SYSTEM, USER, YES, USER]}, {"prompt": "u"}], ids=str
)
def test_preferences_as_conversations(prompt: dict) -> None:
    shared = [SYSTEM, USER, YES, USER]
    found = record("preference", chosen=[*shared, YES], rejected=[*shared, NO], margin=1.5, tools=TOOLS, **prompt)
    assert found == PreferenceRecord(turns(*shared), "y", "n", 1.5, '[{"name": "add"}]')
    assert found.prompt_messages == turns(*shared)


@pytest.mark.parametrize("prompt", ["u", [USER]], ids=["text", "turns"])
def test_preferences_as_last_turns(prompt: object) -> None:
    found = record("preference", prompt=prompt, chosen=[YES], rejected=[NO])
    assert found.prompt_messages == turns(USER)
    assert (found.chosen, found.rejected) == ("y", "n")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"chosen": [USER, YES], "rejected": "n"}, "expected a non-empty list in 'rejected', got 'n'"),
        ({"chosen": "y", "rejected": "n"}, "expected field 'prompt', got fields 'chosen', 'rejected'"),
        ({"chosen": [YES], "rejected": [NO]}, "expected field 'prompt'"),
        ({"chosen": [USER, YES], "rejected": [SYSTEM, NO]}, "got two of which they share no beginning"),
        ({"chosen": [USER, YES], "rejected": [NO]}, "got two of which they share no beginning"),
        ({"chosen": [USER, YES, USER, YES], "rejected": [USER, NO, USER, YES]}, "got two of which turn 1 differs"),
        ({"chosen": [USER, YES, USER, YES], "rejected": [USER, NO]}, "got two of which turn 1 differs"),
        ({"chosen": [USER, YES], "rejected": [USER]}, "'rejected' to end with .* got a turn of user last"),
        ({"chosen": [USER, YES, YES], "rejected": [USER, YES, NO]}, "got one whose turn 1 is the assistant's"),
        ({"chosen": [USER, YES], "rejected": [USER, NO], "prompt": "v"}, "'prompt' to be what 'chosen' says before"),
        ({"chosen": [USER, YES], "rejected": [USER, NO], "prompt": [SYSTEM, USER]}, "'prompt' to be what 'chosen'"),
        (
            {"chosen": [USER, YES], "rejected": [USER, {**NO, "tool_calls": TOOLS}]},
            "'rejected' to end with a turn of the assistant's text, got a turn of assistant with tool calls last",
        ),
        (
            {"chosen": [USER, YES], "rejected": [USER, {**NO, "content": ""}]},
            r"expected some text in 'rejected\[1\]\.content', a turn of assistant, got ''",
        ),
        ({"prompt": "p", "chosen": "", "rejected": "r"}, "expected some text in 'chosen', got ''"),
        ({"prompt": "p", "chosen": "c", "rejected": " "}, "expected some text in 'rejected', got ' '"),
        ({"prompt": "", "chosen": "c", "rejected": "r"}, "expected some text in 'prompt', got ''"),
        ({"prompt": "p", "chosen": "c", "rejected": None}, "expected a string in 'rejected', got null"),
        ({"prompt": "p", "chosen": "c", "rejected": "r", "margin": float("nan")}, "a finite number in 'margin'"),
        ({"prompt": "p", "chosen": "c", "rejected": "r", "margin": float("-inf")}, "a finite number in 'margin'"),
        ({"prompt": "p", "chosen": "c", "rejected": "r", "margin": "big"}, "a finite number in 'margin', got 'big'"),
    ],
)
def test_preferences_that_are_none(value: dict, message: str) -> None:
    with pytest.raises(DataError, match=f"^f:1: .*{message}"):
        record("preference", **value)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("text", {"text": 3}, "expected a string in 'text', got int 3"),
        ("text", {"text": None}, "expected a string in 'text', got null"),
        ("text", {}, "expected field 'text', got fields none"),
        ("prompt_response", {"prompt": "p", "response": ""}, "expected some text in 'response', got ''"),
        ("prompt_response", {"prompt": "\t", "response": "r"}, "expected some text in 'prompt', got '.t'"),
        ("prompt_response", {"prompt": [USER], "response": "r"}, "expected a string in 'prompt', got list"),
        ("messages", {"messages": []}, "expected a non-empty list in 'messages'"),
        ("messages", {"messages": [{"role": "user", "content": ""}]}, r"some text in 'messages\[0\].content', a turn"),
        ("prompt", {"prompt": ""}, "expected some text in 'prompt', got ''"),
        ("prompt", {"prompt": [USER, YES]}, "a prompt that waits for the assistant in 'prompt', got one whose turn 1"),
        ("prompt", {"prompt": []}, "expected a non-empty list in 'prompt'"),
        ("prompt", {"prompt": "p", "answer": 4}, "expected a string in 'answer', got int 4"),
    ],
)
def test_other_values_are_refused(kind: str, value: dict, message: str) -> None:
    with pytest.raises(DataError, match=f"^f:1: .*{message}"):
        record(kind, **value)


def test_a_silent_system_turn_and_a_turn_of_tool_calls_are_fine() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": TOOLS}
    silent = {"role": "system", "content": ""}
    found = record("messages", messages=[silent, USER, call, {"role": "tool", "content": ""}, YES])
    assert [message.as_turn() for message in found.messages][:3] == [silent, USER, call]


def test_fields_are_mapped() -> None:
    fields = {"prompt": "{question}\n{context}", "response": "reply.text"}
    value = {"question": "q", "context": "c", "reply": {"text": "r"}}
    assert record("prompt_response", fields, **value) == ResponseRecord("q\nc", "r")
    with pytest.raises(DataError, match="fields: expected names among prompt, response .* got output"):
        record("prompt_response", {"output": "x"})
    with pytest.raises(DataError, match="fields.messages: expected the name of a field, got the template"):
        record("messages", {"messages": "{a}"})


def test_a_mapped_optional_field_must_exist() -> None:
    with pytest.raises(DataError, match="expected field 'solution', got fields 'prompt'"):
        record("prompt", {"answer": "solution"}, prompt="p")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"text": "t"}, "text"),
        ({"prompt": "p"}, "prompt"),
        ({"prompt": "p", "response": "r"}, "prompt_response"),
        ({"prompt": "p", "chosen": "c", "rejected": "r"}, "preference"),
    ],
)
def test_a_row_of_another_kind_is_recognised(value: dict, kind: str) -> None:
    with pytest.raises(DataError, match=f"^f:1: expected field 'messages'.* The row's fields fit `record: {kind}`"):
        record("messages", **value)
    with pytest.raises(DataError, match="got fields 'id'. Add it, or map it with `fields: {messages: <[^`]*`.$"):
        record("messages", id=1)
