"""JSON Lines files, read with messages that name file, line and field."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from llmstack.data.files import is_text, read_lines, resolve_files
from llmstack.data.records import Message
from llmstack.errors import DataError

IN_A_RECIPE = "`fields: {{{ours}: <name in the file>}}`"
"""How a recipe maps one of our names to the file's."""


def json_rows(
    pattern: str, fields: Mapping[str, str], *, mapping: str = IN_A_RECIPE, max_bytes: int | None = None
) -> Iterator[JsonRow]:
    """The objects of some JSON Lines files, one after the other, in file order; blank lines are skipped.

    Args:
        pattern: a file or a glob.
        fields: our name of a field -> the file's, where they differ.
        mapping: how the user writes such an entry, for messages; ``{ours}`` stands for our name.
        max_bytes: length above which a line is refused; None: any length.

    Yields:
        At least one row.

    Raises:
        DataError: no file matches, a line is too long or not a JSON object, or there is none.
    """
    empty = True
    for path in resolve_files(pattern):
        for number, line in read_lines(path, max_bytes=max_bytes):
            if line and not line.isspace():
                where = f"{path}:{number}"
                yield JsonRow(_parse(line, where), where, fields, mapping=mapping)
                empty = False
    if empty:
        raise DataError(f"{pattern}: expected at least one JSON object, got an empty data set. Name another.")


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{where}: expected one JSON object, got malformed JSON ({error.msg} at column {error.colno}). "
            "Correct or delete the line."
        ) from error
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected one JSON object, got a {type(value).__name__}. Correct or delete the line.")
    return value


class JsonRow:
    """A line's object, read through the field map with messages that name file, line and field.

    Args:
        value: the object.
        where: ``file:line``.
        fields: our name of a field -> the file's, where they differ.
        mapping: how the user writes such an entry, for messages.
    """

    def __init__(
        self, value: dict[str, Any], where: str, fields: Mapping[str, str], *, mapping: str = IN_A_RECIPE
    ) -> None:
        self.value, self.where, self._fields, self._mapping = value, where, fields, mapping

    def name(self, ours: str) -> str:
        """The file's name of a field.

        Args:
            ours: our name.
        """
        return self._fields.get(ours, ours)

    def has(self, ours: str) -> bool:
        """Whether a field is there, or somebody said it should be.

        Args:
            ours: our name.
        """
        return ours in self._fields or ours in self.value

    def get(self, ours: str) -> Any:
        """A field's value.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing.
        """
        name = self.name(ours)
        if name not in self.value:
            found = ", ".join(map(repr, self.value)) or "none"
            raise DataError(
                f"{self.where}: expected field {name!r}, got fields {found}. "
                f"Add it, or map it with {self._mapping.format(ours=ours)}."
            )
        return self.value[name]

    def text(self, ours: str) -> str:
        """A field that is a string.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing or no string.
        """
        return self._text(self.name(ours), self.get(ours))

    def optional_text(self, ours: str) -> str | None:
        """A field that is a string, null or missing.

        Args:
            ours: our name.

        Raises:
            DataError: it is something else.
        """
        value = self.get(ours) if self.has(ours) else None
        return None if value is None else self._text(self.name(ours), value)

    def number(self, ours: str, default: float) -> float:
        """A field that is a number.

        Args:
            ours: our name.
            default: its value when it is missing.

        Raises:
            DataError: it is no finite number.
        """
        if not self.has(ours):
            return default
        value = self.get(ours)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(
                f"{self.where}: expected a finite number in {self.name(ours)!r}, got {value!r}. Correct the line."
            )
        return float(value)

    def texts(self, ours: str) -> tuple[str, ...]:
        """A field that is a list of strings, not empty.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing or something else.
        """
        name = self.name(ours)
        return tuple(self._text(f"{name}[{index}]", item) for index, item in enumerate(self._items(ours)))

    def messages(self, ours: str) -> tuple[Message, ...]:
        """A field that is a conversation.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing, empty, or holds more than roles and texts.
        """
        name = self.name(ours)
        return tuple(self._message(f"{name}[{index}]", item) for index, item in enumerate(self._items(ours)))

    def _items(self, ours: str) -> list[Any]:
        value = self.get(ours)
        if not isinstance(value, list) or not value:
            raise DataError(
                f"{self.where}: expected a non-empty list in {self.name(ours)!r}, got {value!r}. Correct the line."
            )
        return value

    def _message(self, name: str, item: Any) -> Message:
        if not isinstance(item, dict) or not {"role", "content"} <= set(item):
            raise DataError(f"{self.where}: expected an object with role and content in {name}, got {item!r}.")
        extra = sorted(key for key in item if key not in ("role", "content") and item[key] is not None)
        if extra:
            raise DataError(
                f"{self.where}: expected only role and content in {name}, got also {', '.join(extra)}. "
                "Remove it or render it into the content: it would not reach the model."
            )
        return Message(self._text(f"{name}.role", item["role"]), self._text(f"{name}.content", item["content"]))

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise DataError(
                f"{self.where}: expected a string in {name!r}, got {type(value).__name__} {value!r}. Correct the line."
            )
        if not is_text(value):
            raise DataError(
                f"{self.where}: expected a string of whole characters in {name!r}, got half of a surrogate pair. "
                "Correct the line."
            )
        return value
