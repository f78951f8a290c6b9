"""What is to be labelled: each item once, whatever its place in the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from llmstack.config.annotation import Task
from llmstack.data.files import is_text
from llmstack.data.records import PreferenceRecord, PromptRecord, Record, TextRecord, require
from llmstack.errors import DataError


@dataclass(frozen=True)
class Item:
    """One thing to label.

    Attributes:
        prompt: what is answered, judged or classed.
        answers: preference: the two answers, called a and b.
        where: place in the data.
    """

    prompt: str
    answers: tuple[str, str] | None = None
    where: str = field(default="", compare=False)

    @property
    def id(self) -> str:
        """16 hex digits of a hash of the texts; which of two answers is called a does not matter."""
        text = json.dumps([self.prompt, sorted(self.answers or ())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def answer(self, label: str) -> str:
        """The answer that a label of a preference names.

        Args:
            label: ``a`` or ``b``.
        """
        return (self.answers or ("", ""))["ab".index(label)]


@dataclass(frozen=True)
class Items:
    """The items of a data set.

    Attributes:
        items: each once, in the order of the data.
        duplicates: records that were an earlier item again.
        equal_answers: pairs of equal answers, which no label can tell apart; left out.
    """

    items: tuple[Item, ...]
    duplicates: int = 0
    equal_answers: int = 0


def read_items(records: Iterable[Record], task: Task) -> Items:
    """The items of some records.

    Args:
        records: prompts or texts; for preferences pairs of answers, of which none is taken as the better.
        task: what kind of label they get.

    Returns:
        The items.

    Raises:
        DataError: no record, a record of another kind, or a text that is empty or no text.
    """
    found: dict[str, Item] = {}
    number = equal_answers = 0
    for item in _items(list(records), task):
        number += 1
        check_item(item)
        if item.answers is not None and item.answers[0] == item.answers[1]:
            equal_answers += 1
        else:
            found.setdefault(item.id, item)
    return Items(tuple(found.values()), number - equal_answers - len(found), equal_answers)


def _items(records: list[Record], task: Task) -> Iterable[Item]:
    if task == "preference":
        for pair in require(records, (PreferenceRecord,), used_for="labelling preferences"):
            yield Item(_plain(pair.prompt, pair.where), (pair.chosen, pair.rejected), where=pair.where)
        return
    kinds: tuple[type[PromptRecord] | type[TextRecord], ...] = (PromptRecord, TextRecord)
    for record in require(records, kinds, used_for=f"labelling, task {task}"):
        text = record.prompt if isinstance(record, PromptRecord) else record.text
        yield Item(_plain(text, record.where), where=record.where)


def _plain(prompt: object, where: str) -> str:
    if not isinstance(prompt, str):
        raise DataError(f"{where}: expected a prompt of plain text, got a conversation. Write it as one text.")
    return prompt


def check_item(item: Item) -> None:
    """Refuse an item that nobody could be asked about.

    Args:
        item: from data or from a person's file.

    Raises:
        DataError: a text of it is empty, or holds halves of characters.
    """
    for name, text in (("a prompt", item.prompt), *(("an answer", answer) for answer in item.answers or ())):
        if not text.strip():
            raise DataError(f"{item.where}: expected {name} with some text, got none. Write some, or remove the row.")
        if not is_text(text):
            raise DataError(
                f"{item.where}: expected {name} of whole characters, got half of one (\\ud800 ..). Correct the text."
            )
