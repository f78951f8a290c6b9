"""Labels people have written: rows of a file, checked one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmstack.annotation.items import Item, check_item
from llmstack.config.annotation import HumanConfig, Task
from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.files import read_text
from llmstack.data.jsonl import json_rows
from llmstack.errors import DataError
from llmstack.registry import did_you_mean

KNOWN = ("id", "prompt", "text", "answer_a", "answer_b", "chosen", "rejected", "response", "label", "discard")
"""Our names of the fields a person's row may have."""


@dataclass(frozen=True)
class HumanLabel:
    """What a person said about an item.

    Attributes:
        item: the item.
        label: response: the text; class: the label; preference: ``a`` or ``b`` as ``item`` calls them; None: the
            person threw the item out.
        where: ``file:line``.
    """

    item: Item
    label: str | None
    where: str

    def about(self, item: Item) -> HumanLabel:
        """The same said about the same item with its answers perhaps the other way round.

        Args:
            item: one of the same ``id``.
        """
        if self.label is None or item.answers == self.item.answers:
            return HumanLabel(item, self.label, self.where)
        return HumanLabel(item, "ba"["ab".index(self.label)], self.where)


class HumanLabels:
    """A file of labels.

    Args:
        config: the file and what it calls our fields.
        task: what kind of label is wanted.
        labels: class: the allowed ones.
        where: the option it comes from, for messages.
    """

    def __init__(self, config: HumanConfig, task: Task, labels: Sequence[str], *, where: str) -> None:
        unknown = sorted(set(config.fields) - set(KNOWN))
        if unknown:
            raise DataError(
                f"{where}.fields: expected names among {', '.join(KNOWN)}, got {', '.join(unknown)}. "
                "Each entry maps our name to the file's."
            )
        self._config, self._task, self._labels = config, task, labels

    def read(self) -> tuple[dict[str, HumanLabel], int]:
        """Every label, and how many rows have none yet.

        Returns:
            Labels by id of the item, and the number of rows without one.

        Raises:
            DataError: a row that is none, a label that is not allowed, or one item with two labels.
        """
        return collect(_rows(self._config.path, self._config.fields), self._task, self._labels)


def read_rows(path: Path) -> list[FieldRow]:
    """The rows of a file that may be missing or empty.

    Args:
        path: JSON Lines.

    Raises:
        DataError: a line that is no JSON object.
    """
    if not path.exists() or not read_text(path).strip():
        return []
    return _rows(str(path), {})


def _rows(pattern: str, fields: Mapping[str, str]) -> list[FieldRow]:
    return list(json_rows(pattern, FieldMap(fields)))


def collect(rows: Sequence[FieldRow], task: Task, labels: Sequence[str]) -> tuple[dict[str, HumanLabel], int]:
    """The labels in rows.

    Args:
        rows: an object each.
        task: what kind of label is wanted.
        labels: class: the allowed ones.

    Returns:
        Labels by id of the item, and the number of rows without one.

    Raises:
        DataError: as :meth:`HumanLabels.read`.
    """
    found: dict[str, HumanLabel] = {}
    num_open = 0
    for row in rows:
        said = read_label(row, task, labels)
        if said is None:
            num_open += 1
            continue
        add_label(found, said)
    return found, num_open


def add_label(found: dict[str, HumanLabel], said: HumanLabel) -> None:
    """Add a label to others; one that is there already may be repeated, not changed.

    Args:
        found: by id of the item; is added to.
        said: one more.

    Raises:
        DataError: the item has another label; names both lines.
    """
    before = found.setdefault(said.item.id, said)
    if said.about(before.item).label != before.label:
        raise DataError(
            f"{said.where}: expected the label this item has in {before.where}, {_shown(before.label)}, got "
            f"{_shown(said.about(before.item).label)}. Correct one of the two lines, or remove it."
        )


def read_label(row: FieldRow, task: Task, labels: Sequence[str]) -> HumanLabel | None:
    """What a row says.

    Args:
        row: an object with the texts of an item, and ``label`` (empty or null: not labelled yet) or ``discard`` (true:
            throw the item out). Instead of ``label``, ``response`` may hold it; a row of a preference may name its
            answers ``chosen`` and ``rejected`` instead.
        task: what kind of label is wanted.
        labels: class: the allowed ones.

    Returns:
        The label; None: there is none yet.

    Raises:
        DataError: fields are missing, a label is not allowed, or ``id`` is not that of the texts.
    """
    is_record = task == "preference" and "label" not in row.value and row.has("chosen")
    prompt = row.text("text" if task != "preference" and row.has("text") else "prompt")
    sides = ("chosen", "rejected") if is_record else ("answer_a", "answer_b")
    answers = (row.text(sides[0]), row.text(sides[1])) if task == "preference" else None
    item = Item(prompt, answers, where=row.where)
    check_item(item)
    if answers is not None and answers[0] == answers[1]:
        raise DataError(f"{row.where}: expected two different answers, got one twice. Correct or remove the row.")
    if row.has("id") and row.get("id") != item.id:
        raise DataError(
            f"{row.where}: expected the texts that belong to id {row.get('id')!r}, got others. Only `label` and "
            "`discard` are to be filled in: take the row as it was, or remove `id`."
        )
    if _discarded(row):
        return HumanLabel(item, None, row.where)
    label = "a" if is_record else _label(row, task)
    if not label:
        return None
    _check_label(label, row, ("a", "b") if task == "preference" else labels, task)
    return HumanLabel(item, label, row.where)


def rows_of(said: Mapping[str, HumanLabel]) -> Iterator[dict[str, object]]:
    """Labels as rows, to be read by :func:`read_label` again.

    Args:
        said: by id of the item.

    Yields:
        A row each.
    """
    for name, one in said.items():
        yield {"id": name, **texts_of(one.item), "label": one.label, "discard": one.label is None}


def texts_of(item: Item) -> dict[str, str]:
    """The texts of an item as a row has them.

    Args:
        item: the item.
    """
    answers = {} if item.answers is None else {"answer_a": item.answers[0], "answer_b": item.answers[1]}
    return {"prompt": item.prompt, **answers}


def _discarded(row: FieldRow) -> bool:
    value = row.get("discard") if row.has("discard") else False
    if not isinstance(value, bool):
        raise DataError(f"{row.where}: expected true or false in {row.name('discard')!r}, got {value!r}. Correct it.")
    if value and row.has("label") and row.get("label"):
        raise DataError(f"{row.where}: expected a label or `discard: true`, got both. Remove one.")
    return value


def _label(row: FieldRow, task: Task) -> str | None:
    name = "response" if task != "preference" and not row.has("label") and row.has("response") else "label"
    row.get(name)  # a row without the field is a mistake, one with an empty field is work to be done
    text = row.optional_text(name)
    return text if task == "response" or text is None else text.strip()


def _check_label(label: str, row: FieldRow, allowed: Sequence[str], task: Task) -> None:
    if task == "response":
        if not label.strip():
            raise DataError(f"{row.where}: expected a response with some text, got blanks. Write it, or empty it.")
        return
    if label not in allowed:
        fix = did_you_mean(label, allowed) or "Write one of these."
        raise DataError(f"{row.where}: expected one of {', '.join(allowed)} as label, got {_shown(label)}. {fix}")


def _shown(label: str | None) -> str:
    if label is None:
        return "thrown out"
    return repr(label if len(label) <= 60 else f"{label[:57]}...")
