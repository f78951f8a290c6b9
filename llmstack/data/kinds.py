"""Record kinds: which fields a row of each kind has, and the record they make, whatever file the row comes from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import NamedTuple

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow, MissingField
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


class _Kind(NamedTuple):
    """One record kind.

    Attributes:
        build: makes the record.
        needed: fields a row must have.
        optional: fields it may have.
        texts: fields that are texts, which a template of the field map can make.
    """

    build: Callable[[FieldRow], Record]
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    texts: tuple[str, ...]


class RowReader:
    """Makes the records of one kind.

    Args:
        kind: name of the kind, as a recipe has it.
        fields: what the file calls our fields.

    Raises:
        DataError: the field map names what the kind has not got.
    """

    def __init__(self, kind: str, fields: FieldMap) -> None:
        self._kind = KINDS[kind]
        self.fields = fields
        fields.check(self.known, self._kind.texts, used_for=f"record {kind!r}")

    @property
    def known(self) -> tuple[str, ...]:
        """Our names of all fields that are read."""
        return (*self._kind.needed, *self._kind.optional)

    def record(self, row: FieldRow) -> Record:
        """The record of a row.

        Args:
            row: from any file.

        Raises:
            DataError: a field is missing or not what it should be; with the place of the row.
        """
        try:
            return self._kind.build(row)
        except MissingField as error:
            fitting = [name for name, kind in KINDS.items() if set(kind.needed) <= set(row.value)]
            if fitting:
                raise DataError(f"{error} The row's fields fit `record: {fitting[-1]}`.") from error
            raise


def preference_record(row: FieldRow) -> PreferenceRecord:
    """A pair from ``prompt``, ``chosen`` and ``rejected`` as texts, or from two conversations.

    Conversations are the same but for the last turn, the answer; what they share is the prompt. ``prompt`` may then be
    missing, or say the same; where ``chosen`` and ``rejected`` hold nothing but the answer it says what came before.

    Args:
        row: from any file.

    Raises:
        DataError: a field is missing or not what it should be; with the place of the row.
    """
    margin, tools = row.number("margin", 0.0), row.tools("tools")
    if not isinstance(row.get("chosen"), list) and not isinstance(row.get("rejected"), list):
        answers = row.some_text("chosen"), row.some_text("rejected")
        return PreferenceRecord(_prompt(row), *answers, margin, tools, where=row.where)
    chosen, rejected = _said(row, "chosen"), _said(row, "rejected")
    for name, turns in (("chosen", chosen), ("rejected", rejected)):
        if turns[-1].role != "assistant" or turns[-1].extra:
            raise DataError(
                f"{row.where}: expected {row.name(name)!r} to end with a turn of the assistant's text, got a turn of "
                f"{turns[-1].role} {'with tool calls ' if turns[-1].extra else ''}last. Correct or delete the row."
            )
    pairs = zip(chosen[:-1], rejected[:-1], strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if shared < max(len(chosen), len(rejected)) - 1:
        what = f"turn {shared} differs" if shared else "they share no beginning"
        raise DataError(
            f"{row.where}: expected {row.name('chosen')!r} and {row.name('rejected')!r} to be the same conversation "
            f"but for its last turn, got two of which {what}. Correct or delete the row."
        )
    prompt = _shared_prompt(row, chosen[:-1])
    return PreferenceRecord(prompt, chosen[-1].content, rejected[-1].content, margin, tools, where=row.where)


def _shared_prompt(row: FieldRow, turns: tuple[Message, ...]) -> str | tuple[Message, ...]:
    """The prompt of two conversations that share these turns, which ``prompt`` may repeat."""
    if not turns:
        return _prompt(row)
    _refuse_answered(row, "chosen", turns)
    if row.optional("prompt") is not None:
        prompt = _prompt(row)
        same = turns[-1] == Message("user", prompt) if isinstance(prompt, str) else prompt == turns
        if not same:
            raise DataError(
                f"{row.where}: expected {row.name('prompt')!r} to be what {row.name('chosen')!r} says before the "
                "answer, got something else. Correct the row, or remove one of the two."
            )
    return turns


def _prompt(row: FieldRow) -> str | tuple[Message, ...]:
    """``prompt`` as a text, or as a conversation that waits for an answer."""
    if not isinstance(row.get("prompt"), list):
        return row.some_text("prompt")
    turns = _said(row, "prompt")
    _refuse_answered(row, "prompt", turns)
    return turns


def _refuse_answered(row: FieldRow, name: str, turns: tuple[Message, ...]) -> None:
    if turns[-1].role == "assistant":
        raise DataError(
            f"{row.where}: expected a prompt that waits for the assistant in {row.name(name)!r}, got one whose turn "
            f"{len(turns) - 1} is the assistant's. Remove that turn, or delete the row."
        )


def _said(row: FieldRow, name: str) -> tuple[Message, ...]:
    """A conversation in which nobody who should speak is silent."""
    turns = row.messages(name)
    for index, turn in enumerate(turns):
        silent = not turn.content or turn.content.isspace()
        if silent and turn.role in ("user", "assistant") and "tool_calls" not in turn.as_turn():
            raise DataError(
                f"{row.where}: expected some text in '{row.name(name)}[{index}].content', a turn of {turn.role}, "
                f"got {turn.content!r}. Correct or delete the row."
            )
    return turns


def _text_record(row: FieldRow) -> TextRecord:
    return TextRecord(row.text("text"), where=row.where)


def _response_record(row: FieldRow) -> ResponseRecord:
    return ResponseRecord(row.some_text("prompt"), row.some_text("response"), where=row.where)


def _messages_record(row: FieldRow) -> MessagesRecord:
    return MessagesRecord(_said(row, "messages"), row.tools("tools"), where=row.where)


def _labelled_record(row: FieldRow) -> LabelledRecord:
    return LabelledRecord(
        _prompt(row), row.some_text("response"), row.truth("label"), row.tools("tools"), where=row.where
    )


def _prompt_record(row: FieldRow) -> PromptRecord:
    return PromptRecord(_prompt(row), row.optional_text("answer"), row.tools("tools"), where=row.where)


KINDS = {
    "prompt": _Kind(_prompt_record, ("prompt",), ("answer", "tools"), ("prompt", "answer")),
    "text": _Kind(_text_record, ("text",), (), ("text",)),
    "messages": _Kind(_messages_record, ("messages",), ("tools",), ()),
    "prompt_response": _Kind(_response_record, ("prompt", "response"), (), ("prompt", "response")),
    "preference": _Kind(
        preference_record,
        ("chosen", "rejected"),
        ("prompt", "margin", "tools"),
        ("prompt", "chosen", "rejected"),
    ),
    "labelled": _Kind(_labelled_record, ("prompt", "response", "label"), ("tools",), ("prompt", "response")),
}
"""The kinds by the name a recipe has; those with more needed fields come later."""
