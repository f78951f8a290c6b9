"""Records from files: plain text and JSON Lines.

Every source has the same shape: ``Source(config, seed=...)`` and ``records() -> list[Record]``.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from llmstack.data.records import (
    Message,
    MessagesRecord,
    PreferenceRecord,
    PromptRecord,
    Record,
    ResponseRecord,
    TextRecord,
)
from llmstack.errors import DataError

if TYPE_CHECKING:
    from llmstack.config.data import JsonlConfig, TextFileConfig


class Source(Protocol):
    """What the source registry holds: a class built from its options and the recipe's seed."""

    def records(self) -> list[Record]:
        """Every record, in a fixed order."""
        ...

    def fingerprint(self) -> str:
        """A text that changes whenever the same options would give other records."""
        ...


def resolve_files(pattern: str) -> list[Path]:
    """The files a path or glob names, sorted by name.

    Args:
        pattern: a file or a glob (``**`` crosses folders), relative to the working directory.

    Returns:
        At least one existing file.

    Raises:
        DataError: nothing matches, or the path is a folder.
    """
    direct = Path(pattern)
    if direct.is_file():
        return [direct]
    if direct.is_dir():
        raise DataError(
            f"{pattern}: expected a file or a glob, got a folder. Name its files, e.g. {pattern.rstrip('/')}/*"
        )
    files = sorted(Path(name) for name in glob.glob(pattern, recursive=True) if Path(name).is_file())
    if not files:
        raise DataError(
            f"{pattern}: expected an existing file or a glob that matches one, got nothing in {Path.cwd()}. "
            "Correct `path` (it counts from the working directory)."
        )
    return files


def files_fingerprint(pattern: str) -> str:
    """Hash of the contents of the files a path or glob names.

    Args:
        pattern: as for :func:`resolve_files`.

    Returns:
        sha256 hex; names do not count, the order of the files does.

    Raises:
        DataError: nothing matches, or a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in resolve_files(pattern):
        try:
            with path.open("rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
        except OSError as error:
            raise DataError(
                f"{path}: expected a readable file, got {error.strerror}. Correct its permissions."
            ) from error
    return digest.hexdigest()


def read_text(path: Path) -> str:
    """Read a UTF-8 file, naming the file and line of the first byte that is not.

    Args:
        path: the file.

    Returns:
        Its text, with line ends as ``\\n``.

    Raises:
        DataError: the file cannot be read or is not UTF-8.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: expected a readable file, got {error.strerror}. Check its permissions.") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}:{line}: expected UTF-8 text, got byte {raw[error.start]:#04x}. Convert the file to UTF-8."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


class TextFiles:
    """Plain text files: one document a file, or one a blank-line-separated block."""

    def __init__(self, config: TextFileConfig, *, seed: int) -> None:
        self._config = config

    def records(self) -> list[Record]:
        """Every document, in file order.

        Returns:
            One ``TextRecord`` a document.

        Raises:
            DataError: no file matches, a file is not UTF-8, or none holds any text.
        """
        found: list[Record] = []
        for path in resolve_files(self._config.path):
            text = read_text(path)
            if self._config.split_documents == "file":
                if text.strip():
                    found.append(TextRecord(text, where=f"{path}:1"))
            else:
                found.extend(TextRecord(block, where=f"{path}:{line}") for line, block in _blocks(text))
        if not found:
            raise DataError(f"{self._config.path}: expected text, got only empty files. Correct `path`.")
        return found

    def fingerprint(self) -> str:
        """Hash of the files' contents."""
        return files_fingerprint(self._config.path)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield (first line number, text) of each run of non-blank lines."""
    start, block = 0, list[str]()
    for number, line in enumerate(text.split("\n") + [""], start=1):
        if line.strip():
            if not block:
                start = number
            block.append(line)
        elif block:
            yield start, "\n".join(block)
            block = []


class Jsonl:
    """One JSON object a line, of one record kind; ``fields`` maps our names to the file's."""

    def __init__(self, config: JsonlConfig, *, seed: int) -> None:
        self._config = config
        self._build, known = _KINDS[config.record]
        unknown = sorted(set(config.fields) - set(known))
        if unknown:
            raise DataError(
                f"fields: expected names among {', '.join(known)} for record {config.record!r}, got "
                f"{', '.join(unknown)}. Each entry maps our name to the file's, e.g. {known[0]}: their_{known[0]}."
            )

    def records(self) -> list[Record]:
        """Every line as a record, in file order; blank lines are skipped.

        Returns:
            Records of the configured kind.

        Raises:
            DataError: no file matches, a line is not a JSON object, a field is missing or of another type
                (each with file and line), or there is no record at all.
        """
        found: list[Record] = []
        for path in resolve_files(self._config.path):
            # split on "\n" alone: JSON strings may hold U+2028 and other characters splitlines() breaks at
            for number, line in enumerate(read_text(path).split("\n"), start=1):
                if line.strip():
                    row = _Row(_parse(line, f"{path}:{number}"), f"{path}:{number}", self._config.fields)
                    found.append(self._build(row))
        if not found:
            raise DataError(
                f"{self._config.path}: expected at least one JSON object, got an empty data set. Correct `path`."
            )
        return found

    def fingerprint(self) -> str:
        """Hash of the files' contents."""
        return files_fingerprint(self._config.path)


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


class _Row:
    """A line's object, read through the field map with messages that name file, line and field."""

    def __init__(self, value: dict[str, Any], where: str, fields: dict[str, str]) -> None:
        self.value, self.where, self._fields = value, where, fields

    def _name(self, ours: str) -> str:
        return self._fields.get(ours, ours)

    def get(self, ours: str) -> Any:
        name = self._name(ours)
        if name not in self.value:
            found = ", ".join(map(repr, self.value)) or "none"
            raise DataError(
                f"{self.where}: expected field {name!r}, got fields {found}. "
                f"Add it, or map it with `fields: {{{ours}: <name in the file>}}`."
            )
        return self.value[name]

    def text(self, ours: str) -> str:
        return self._text(self._name(ours), self.get(ours))

    def optional_text(self, ours: str) -> str | None:
        if ours not in self._fields and ours not in self.value:
            return None
        value = self.get(ours)
        return None if value is None else self._text(self._name(ours), value)

    def number(self, ours: str, default: float) -> float:
        if ours not in self._fields and ours not in self.value:
            return default
        value = self.get(ours)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(
                f"{self.where}: expected a finite number in {self._name(ours)!r}, got {value!r}. Correct the line."
            )
        return float(value)

    def messages(self, ours: str) -> tuple[Message, ...]:
        name, value = self._name(ours), self.get(ours)
        if not isinstance(value, list) or not value:
            raise DataError(f"{self.where}: expected a non-empty list in {name!r}, got {value!r}. Correct the line.")
        return tuple(self._message(f"{name}[{index}]", item) for index, item in enumerate(value))

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
        return value


def _text_record(row: _Row) -> Record:
    return TextRecord(row.text("text"), where=row.where)


def _response_record(row: _Row) -> Record:
    return ResponseRecord(row.text("prompt"), row.text("response"), where=row.where)


def _messages_record(row: _Row) -> Record:
    return MessagesRecord(row.messages("messages"), where=row.where)


def _preference_record(row: _Row) -> Record:
    return PreferenceRecord(
        row.text("prompt"), row.text("chosen"), row.text("rejected"), row.number("margin", 0.0), where=row.where
    )


def _prompt_record(row: _Row) -> Record:
    return PromptRecord(row.text("prompt"), row.optional_text("answer"), where=row.where)


_KINDS: dict[str, tuple[Callable[[_Row], Record], tuple[str, ...]]] = {
    "text": (_text_record, ("text",)),
    "prompt_response": (_response_record, ("prompt", "response")),
    "messages": (_messages_record, ("messages",)),
    "preference": (_preference_record, ("prompt", "chosen", "rejected", "margin")),
    "prompt": (_prompt_record, ("prompt", "answer")),
}
