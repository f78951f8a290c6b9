"""What a data source hands out: one frozen record a sample, each knowing where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from llmstack.errors import DataError


@dataclass(frozen=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: ``system``, ``user``, ``assistant`` or another role the chat template knows.
        content: the turn's text.
    """

    role: str
    content: str


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
class ResponseRecord(Record):
    """A prompt and the answer to learn."""

    prompt: str
    response: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """The same sample as a conversation of one user and one assistant turn."""
        return Message("user", self.prompt), Message("assistant", self.response)


@dataclass(frozen=True)
class MessagesRecord(Record):
    """A conversation; every assistant turn is trained."""

    messages: tuple[Message, ...]


@dataclass(frozen=True)
class PreferenceRecord(Record):
    """Two answers to one prompt, of which ``chosen`` is the better.

    Attributes:
        prompt: what was asked.
        chosen: the better answer.
        rejected: the worse answer.
        margin: by how much, in units of the reward model's score (0 when unknown).
    """

    prompt: str
    chosen: str
    rejected: str
    margin: float = 0.0


@dataclass(frozen=True)
class PromptRecord(Record):
    """A prompt to answer; ``answer`` is the known right one, when a reward needs it."""

    prompt: str
    answer: str | None = None


RecordT = TypeVar("RecordT", bound=Record)


def require(records: Sequence[Record], kinds: tuple[type[RecordT], ...], *, used_for: str) -> list[RecordT]:
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
    accepted = " or ".join(kind.__name__ for kind in kinds)
    if not records:
        raise DataError(
            f"data: expected at least one {accepted} for {used_for}, got an empty data set. "
            "Check the source's path, split and limit."
        )
    out: list[RecordT] = []
    for record in records:
        if not isinstance(record, kinds):
            raise DataError(
                f"{record.where or 'data'}: expected {accepted} for {used_for}, got {type(record).__name__}. "
                "Choose a source, or a jsonl record kind, that fits this stage."
            )
        out.append(record)
    return out


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
            texts = tuple(message.content for message in record.messages)
        case PreferenceRecord():
            texts = (record.prompt, record.chosen, record.rejected)
        case PromptRecord():
            texts = (record.prompt, record.answer)
        case _:
            raise DataError(
                f"{record.where or 'data'}: expected a record with text, got {type(record).__name__}. "
                "Choose another source for the tokenizer."
            )
    return tuple(text for text in texts if text)
