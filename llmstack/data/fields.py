"""The fields of a user's rows, from whatever file, by our names, with messages that name place and field."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from llmstack.data.field_map import FieldMap
from llmstack.data.files import is_text
from llmstack.data.records import Message
from llmstack.errors import DataError

TURN_KEYS = ("tool_calls", "tool_call_id", "name")
"""What a turn may have beside role and content; the template is given it as it is."""


class MissingField(DataError):
    """A row has not got a field."""


class FieldRow:
    """A row's fields, read through the field map with messages that name place and field.

    Args:
        value: the row as the file has it.
        where: ``file:line`` or the like.
        fields: what the file calls our fields.
        names: all fields of the file, for messages; None: those of ``value``.
    """

    def __init__(
        self, value: Mapping[str, Any], where: str, fields: FieldMap, *, names: Collection[str] | None = None
    ) -> None:
        self.value, self.where, self._fields, self._names = value, where, fields, names

    def name(self, ours: str) -> str:
        """The file's name of a field, or the template that makes it.

        Args:
            ours: our name.
        """
        return self._fields.names.get(ours, ours)

    def has(self, ours: str) -> bool:
        """Whether a field is there, or somebody said it should be.

        Args:
            ours: our name.
        """
        return ours in self._fields.names or ours in self.value

    def found(self, ours: str) -> bool:
        """Whether a field can be read.

        Args:
            ours: our name.
        """
        try:
            self.get(ours)
        except MissingField:
            return False
        return True

    def get(self, ours: str) -> Any:
        """A field's value.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing.
        """
        template = self._fields.templates.get(ours)
        if template is None:
            return self._find(ours, self.name(ours))
        return "".join(piece.text + self._filled(ours, piece.name) for piece in template)

    def _find(self, ours: str, name: str) -> Any:
        if name in self.value:
            return self.value[name]
        value: Any = self.value
        for key in name.split("."):
            if not isinstance(value, Mapping) or key not in value:
                found = ", ".join(map(repr, self._names or self.value)) or "none"
                raise MissingField(
                    f"{self.where}: expected field {name!r}, got fields {found}. "
                    f"Add it, or map it with {self._fields.mapping.format(ours=ours)}."
                )
            value = value[key]
        return value

    def _filled(self, ours: str, name: str | None) -> str:
        if name is None:
            return ""
        value = self._find(ours, name)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else self._text(name, value)

    def text(self, ours: str) -> str:
        """A field that is a string.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing or no string.
        """
        return self._text(self.name(ours), self.get(ours))

    def some_text(self, ours: str) -> str:
        """A field that is a string with more than white space in it.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing, no string, or blank.
        """
        value = self.text(ours)
        if not value or value.isspace():
            raise DataError(f"{self.where}: expected some text in {self.name(ours)!r}, got {_short(value)}. {_FIX}")
        return value

    def optional_text(self, ours: str) -> str | None:
        """A field that is a string, null or missing.

        Args:
            ours: our name.

        Raises:
            DataError: it is something else.
        """
        value = self.optional(ours)
        return None if value is None else self._text(self.name(ours), value)

    def optional(self, ours: str) -> Any:
        """A field's value; None when it is missing and nobody said it should be there.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing and the user's map names it.
        """
        return self.get(ours) if self.has(ours) else None

    def number(self, ours: str, default: float) -> float:
        """A field that is a number.

        Args:
            ours: our name.
            default: its value when it is null or missing.

        Raises:
            DataError: it is no finite number.
        """
        value = self.optional(ours)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(
                f"{self.where}: expected a finite number in {self.name(ours)!r}, got {_short(value)}. {_FIX}"
            )
        return float(value)

    def truth(self, ours: str) -> bool:
        """A field that is true or false, or 1 or 0.

        Args:
            ours: our name.

        Raises:
            DataError: it is missing or something else.
        """
        value = self.get(ours)
        if not isinstance(value, bool | int) or value not in (0, 1):
            raise DataError(
                f"{self.where}: expected true or false (or 1 or 0) in {self.name(ours)!r}, got {_short(value)}. {_FIX}"
            )
        return bool(value)

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
            DataError: it is missing, empty, or has turns of another form.
        """
        name = self.name(ours)
        return tuple(self._message(f"{name}[{index}]", item) for index, item in enumerate(self._items(ours)))

    def tools(self, ours: str) -> str:
        """A field that is a list of JSON schemas (or that list as JSON text), null or missing.

        Args:
            ours: our name.

        Returns:
            The list as JSON text; empty without one.

        Raises:
            DataError: it is something else.
        """
        value, name = self.optional(ours), self.name(ours)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                pass  # refused below, as it is
        if not value and (value is None or isinstance(value, list)):
            return ""
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            raise DataError(f"{self.where}: expected a list of objects in {name!r}, got {_short(value)}. {_FIX}")
        return self._json(name, value)

    def _items(self, ours: str) -> list[Any]:
        value = self.get(ours)
        if not isinstance(value, list) or not value:
            raise DataError(
                f"{self.where}: expected a non-empty list in {self.name(ours)!r}, got {_short(value)}. {_FIX}"
            )
        return value

    def _message(self, name: str, item: Any) -> Message:
        calls = item.get("tool_calls") if isinstance(item, Mapping) else None
        if not isinstance(item, Mapping) or "role" not in item or ("content" not in item and not calls):
            raise DataError(f"{self.where}: expected an object with role and content in {name}, got {_short(item)}.")
        extra = {key: item[key] for key in item if key not in ("role", "content") and item[key] not in (None, [])}
        unknown = sorted(set(extra) - set(TURN_KEYS))
        if unknown:
            raise DataError(
                f"{self.where}: expected only role, content, {', '.join(TURN_KEYS)} in {name}, got also "
                f"{', '.join(unknown)}. Remove it or render it into the content: it would not reach the model."
            )
        for key in set(extra) - {"tool_calls"}:
            self._text(f"{name}.{key}", extra[key])
        if calls and not (isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls)):
            raise DataError(
                f"{self.where}: expected a list of objects in {name}.tool_calls, got {_short(calls)}. {_FIX}"
            )
        content = item.get("content")
        if content is None and calls:
            extra["content"], content = None, ""
        role, content = self._text(f"{name}.role", item["role"]), self._text(f"{name}.content", content)
        return Message(role, content, self._json(name, extra) if extra else "")

    def _json(self, name: str, value: Any) -> str:
        try:
            return self._text(name, json.dumps(value, ensure_ascii=False, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise DataError(f"{self.where}: expected what JSON can hold in {name}, got {error}. {_FIX}") from error

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            what = "null" if value is None else f"{type(value).__name__} {_short(value)}"
            raise DataError(f"{self.where}: expected a string in {name!r}, got {what}. {_FIX}")
        if not is_text(value):
            raise DataError(
                f"{self.where}: expected a string of whole characters in {name!r}, got half of a surrogate pair. {_FIX}"
            )
        return value


_FIX = "Correct or delete the row."


def _short(value: Any) -> str:
    """A value for a message, cut to what fits into one."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
