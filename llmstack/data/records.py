"""What a data source hands out: one frozen record a sample, each knowing where it came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from llmstack.errors import DataError


@dataclass(frozen=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: ``system``, ``user``, ``assistant`` or another role the chat template knows.
        content: the turn's text; empty in a turn of tool calls alone.
        extra: what else the template is given of the turn (``tool_calls``, ``tool_call_id``, ``name``), a JSON object
            as text so that turns can be compared and hashed; empty: nothing.
    """

    role: str
    content: str
    extra: str = ""

    def as_turn(self) -> dict[str, Any]:
        """The turn as chat templates and JSON Lines files have it: ``role``, ``content`` and the extra keys."""
        return {"role": self.role, "content": self.content, **(json.loads(self.extra) if self.extra else {})}


@dataclass(frozen=True, kw_only=True)
class Record:
    """Base of every record.

    Attributes:
        where: ``file:line`` (or another place a reader can look up) for messages about this sample.
    """

    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class TextRecord(Record):
    """A plain document: every token is trained."""

    text: str


@dataclass(frozen=True)
class TokensRecord(Record):
    """A plain document that is token ids already, of the tokenizer the file was made with.

    Attributes:
        ids: integers (N,), with whatever the maker of the file put at the document's ends.
    """

    ids: np.ndarray

    def __eq__(self, other: object) -> bool:
        """Whether the other is a record of the same ids."""
        return isinstance(other, TokensRecord) and np.array_equal(self.ids, other.ids)

    def __hash__(self) -> int:
        return hash(self.ids.astype(np.int64).tobytes())


class _Prompted:
    """What records with a prompt share: it is a user's text, or the turns of a conversation up to an answer."""

    prompt: str | tuple[Message, ...]

    @property
    def prompt_messages(self) -> tuple[Message, ...]:
        """The prompt as turns; a text is one turn of the user."""
        return (Message("user", self.prompt),) if isinstance(self.prompt, str) else self.prompt

    @property
    def prompt_text(self) -> str:
        """The prompt as one text, for rewards and samples; of a conversation each turn behind its role."""
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n\n".join(f"{message.role}: {message.content}" for message in self.prompt)


@dataclass(frozen=True)
class ResponseRecord(_Prompted, Record):
    """A prompt and the answer to learn."""

    prompt: str
    response: str
    tools: ClassVar[str] = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The same sample as a conversation of one user and one assistant turn."""
        return *self.prompt_messages, Message("assistant", self.response)


@dataclass(frozen=True)
class MessagesRecord(Record):
    """A conversation; every assistant turn is trained.

    Attributes:
        messages: the turns.
        tools: JSON schemas of the tools the assistant may call, a JSON list as text; empty: none.
    """

    messages: tuple[Message, ...]
    tools: str = ""


@dataclass(frozen=True)
class PreferenceRecord(_Prompted, Record):
    """Two answers to one prompt, of which ``chosen`` is the better.

    Attributes:
        prompt: what was asked: a user's text, or the turns of a conversation up to the answer.
        chosen: the better answer.
        rejected: the worse answer.
        margin: by how much, in units of the reward model's score (0 when unknown).
        tools: as in :class:`MessagesRecord`.
    """

    prompt: str | tuple[Message, ...]
    chosen: str
    rejected: str
    margin: float = 0.0
    tools: str = ""


@dataclass(frozen=True)
class LabelledRecord(_Prompted, Record):
    """An answer to a prompt that was judged by itself.

    Attributes:
        prompt: what was asked: a user's text, or the turns of a conversation up to the answer.
        response: the answer.
        label: whether it is a good one.
        tools: as in :class:`MessagesRecord`.
    """

    prompt: str | tuple[Message, ...]
    response: str
    label: bool
    tools: str = ""


@dataclass(frozen=True)
class PromptRecord(_Prompted, Record):
    """A prompt to answer.

    Attributes:
        prompt: a user's text, or the turns of a conversation up to the answer.
        answer: the known right one, when a reward needs it.
        tools: as in :class:`MessagesRecord`.
    """

    prompt: str | tuple[Message, ...]
    answer: str | None = None
    tools: str = ""


RecordT = TypeVar("RecordT", bound=Record)


def require(records: Iterable[Record], kinds: tuple[type[RecordT], ...], *, used_for: str) -> list[RecordT]:
    """Check that a data set is not empty and holds the kinds of records its user can work with.

    Args:
        records: what a source handed out.
        kinds: accepted record classes.
        used_for: what the records are for, e.g. ``preference rows``; goes into the message.

    Returns:
        The records as a list.

    Raises:
        DataError: the data set is empty, or a record is of another kind.
    """
    return list(required(records, kinds, used_for=used_for))


def required(records: Iterable[Record], kinds: tuple[type[RecordT], ...], *, used_for: str) -> Iterator[RecordT]:
    """``require`` of one record after the other.

    Args:
        records: what a source hands out.
        kinds: accepted record classes.
        used_for: what the records are for, e.g. ``preference rows``; goes into the message.

    Yields:
        The records.

    Raises:
        DataError: the data set is empty, or a record is of another kind.
    """
    empty = True
    for record in records:
        if not isinstance(record, kinds):
            raise DataError(
                f"{record.where or 'data'}: expected {_expected(kinds)} for {used_for}, got a "
                f"{type(record).__name__.removesuffix('Record').lower()} record ({_fields(type(record))}). "
                "Choose a source, or a `record` kind, that fits this stage."
            )
        yield record
        empty = False
    if empty:
        raise DataError(
            f"data: expected at least one {_expected(kinds)} for {used_for}, got an empty data set. "
            "Check the source's path, split and limit."
        )


def _expected(kinds: tuple[type[RecordT], ...]) -> str:
    return " or ".join(f"{kind.__name__} ({_fields(kind)})" for kind in kinds)


def _fields(kind: type[Record]) -> str:
    """What a record of a kind must have."""
    return ", ".join(item.name for item in fields(kind) if item.name != "where" and item.default is MISSING)


def record_texts(record: Record) -> tuple[str, ...]:
    """The texts a record holds, for training a tokenizer.

    Args:
        record: any built-in record.

    Returns:
        Its non-empty texts.

    Raises:
        DataError: the record is of an unknown kind.
    """
    match record:
        case TextRecord():
            texts: tuple[str | None, ...] = (record.text,)
        case ResponseRecord() | MessagesRecord():
            texts = tuple(text for _, text in written(record.messages, record.tools))
        case PreferenceRecord():
            prompt = (text for _, text in written(record.prompt_messages, record.tools))
            texts = (*prompt, record.chosen, record.rejected)
        case LabelledRecord():
            texts = (*(text for _, text in written(record.prompt_messages, record.tools)), record.response)
        case PromptRecord():
            texts = (*(text for _, text in written(record.prompt_messages, record.tools)), record.answer)
        case _:
            raise DataError(
                f"{record.where or 'data'}: expected a record with text, got {type(record).__name__}. "
                "Choose another source for the tokenizer."
            )
    return tuple(text for text in texts if text)


def written(messages: Sequence[Message], tools: str = "") -> Iterator[tuple[str, str]]:
    """Whatever of a conversation may reach the model through a template.

    Args:
        messages: the turns.
        tools: JSON list of schemas, or empty.

    Yields:
        Who says it (a role, or ``tools``) and the text; tools and tool calls as JSON.
    """
    if tools:
        yield "tools", tools
    for message in messages:
        yield message.role, message.content
        if message.extra:
            yield message.role, message.extra
