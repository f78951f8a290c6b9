"""What a model is asked: prompts and conversations from the command line or a file, and their token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.files import is_jsonl, is_text, read_lines, resolve_files
from llmstack.data.jsonl import json_rows
from llmstack.data.records import Message, Record
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError, UserError

ON_THE_COMMAND_LINE = "--field {ours}=NAME"
"""How a command maps one of our names of a field to the file's."""


@dataclass(frozen=True)
class Question(Record):
    """Something to go on from or to answer.

    Attributes:
        prompt: a text, or the turns of a conversation.
        answer: the right answer, when it is known.
        tools: JSON list of the schemas of the tools the assistant may call; empty: none.
    """

    prompt: str | tuple[Message, ...]
    answer: str | None = None
    tools: str = ""

    @property
    def as_json(self) -> str | list[dict[str, Any]]:
        """The prompt as a file holds it."""
        if isinstance(self.prompt, str):
            return self.prompt
        return [turn.as_turn() for turn in self.prompt]


def questions_of(texts: Sequence[str], *, where: str = "--prompt") -> list[Question]:
    """Prompts given on the command line.

    Args:
        texts: the prompts.
        where: the option they were given with, for messages.

    Raises:
        UserError: one is empty or holds bytes that are no text.
    """
    for text in texts:
        if not text:
            raise UserError(f"{where}: expected some text, got none. Write what the model should go on from.")
        if not is_text(text):
            raise UserError(f"{where}: expected UTF-8 text, got other bytes. Put the prompt into a UTF-8 file.")
    return [Question(text, where=where) for text in texts]


def read_prompts(pattern: str, fields: Mapping[str, str]) -> list[Question]:
    """Prompts from a file: a text file has one on each line, a .jsonl file objects with ``prompt`` or ``messages``.

    Args:
        pattern: a file or a glob.
        fields: our name of a field -> the file's, where they differ.

    Returns:
        At least one question; blank lines of a text file are skipped.

    Raises:
        DataError: a file that does not exist, is not UTF-8 or holds no prompt, or a row that is not as above.
    """
    if is_jsonl(pattern):
        return read_questions(pattern, fields, needs_answer=False)
    found = [
        Question(line, where=f"{path}:{number}")
        for path in resolve_files(pattern)
        for number, line in read_lines(path)
        if line.strip()
    ]
    if not found:
        raise DataError(f"{pattern}: expected a prompt on each line, got only blank lines. Write some.")
    return found


def read_questions(pattern: str, fields: Mapping[str, str], *, needs_answer: bool) -> list[Question]:
    """Questions from a JSON Lines file: objects with ``prompt`` or ``messages``, and ``answer``.

    Args:
        pattern: a file or a glob.
        fields: our name of a field -> the file's, where they differ.
        needs_answer: whether a row without an answer is refused.

    Raises:
        DataError: a file that does not exist or holds no row, or a row that is not as above.
    """
    rows = json_rows(pattern, FieldMap(fields, mapping=ON_THE_COMMAND_LINE))
    return [_question(row, needs_answer=needs_answer) for row in rows]


def _question(row: FieldRow, *, needs_answer: bool) -> Question:
    has_messages = row.found("messages")
    if has_messages and row.found("prompt"):
        raise DataError(f"{row.where}: expected either 'prompt' or 'messages', got both. Remove one.")
    answer = row.text("answer") if needs_answer else row.optional_text("answer")
    if has_messages:
        messages = row.messages("messages")
        if messages[-1].role == "assistant":
            raise DataError(
                f"{row.where}: expected messages that end with a question, got an assistant's turn last. Remove it."
            )
        return Question(messages, answer, row.tools("tools"), where=row.where)
    prompt = row.text("prompt")
    if not prompt:
        raise DataError(f"{row.where}: expected some text in {row.name('prompt')!r}, got none. Write a prompt.")
    return Question(prompt, answer, where=row.where)


@dataclass(frozen=True)
class Asking:
    """How questions become token ids.

    Attributes:
        chat: put a text into the chat template as a user's turn; messages always go into it.
        system: a system message in front of every conversation; None: none.
    """

    chat: bool = False
    system: str | None = None

    def ids(self, question: Question, tokenizer: Tokenizer) -> list[int]:
        """The prompt as the model was trained to see it: a document's beginning, or turns up to the assistant's.

        Args:
            question: what is asked.
            tokenizer: the model's.

        Raises:
            UserError: no chat template, a control token in a turn, two system messages, or one without a conversation.
        """
        prompt = question.prompt
        if isinstance(prompt, str) and not self.chat:
            if self.system is not None:
                raise UserError(
                    f"{question.where}: expected a conversation because of --system, got a plain prompt. Add --chat."
                )
            return [*tokenizer.prefix_ids, *tokenizer.encode(prompt)]
        turns = (Message("user", prompt),) if isinstance(prompt, str) else prompt
        if self.system is not None:
            if turns[0].role == "system":
                raise UserError(
                    f"{question.where}: expected no system message because of --system, got one. Remove either."
                )
            turns = (Message("system", self.system), *turns)
        return tokenizer.encode_prompt(turns, where=question.where, tools=question.tools)


def conversation(turns: Sequence[Message]) -> dict[str, list[dict[str, Any]]]:
    """A conversation as a line of a JSON Lines file holds it.

    Args:
        turns: in order.
    """
    return {"messages": [turn.as_turn() for turn in turns]}
