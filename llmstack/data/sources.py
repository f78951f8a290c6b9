"""Records from files: plain text and JSON Lines.

Every source has the same shape: ``Source(config, seed=...)`` and ``records() -> list[Record]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from llmstack.data.files import files_fingerprint, read_text, resolve_files
from llmstack.data.jsonl import JsonRow, json_rows
from llmstack.data.records import (
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
                found.extend(TextRecord(block, where=f"{path}:{line}") for line, block in blocks(text))
        if not found:
            raise DataError(f"{self._config.path}: expected text, got only empty files. Name another.")
        return found

    def fingerprint(self) -> str:
        """Hash of the files' contents."""
        return files_fingerprint(self._config.path)


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a text that blank lines separate.

    Args:
        text: with line ends as ``\\n``.

    Yields:
        First line number and text of each run of non-blank lines.
    """
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
        return [self._build(row) for row in json_rows(self._config.path, self._config.fields)]

    def fingerprint(self) -> str:
        """Hash of the files' contents."""
        return files_fingerprint(self._config.path)


def _text_record(row: JsonRow) -> Record:
    return TextRecord(row.text("text"), where=row.where)


def _response_record(row: JsonRow) -> Record:
    return ResponseRecord(row.text("prompt"), row.text("response"), where=row.where)


def _messages_record(row: JsonRow) -> Record:
    return MessagesRecord(row.messages("messages"), where=row.where)


def _preference_record(row: JsonRow) -> Record:
    return PreferenceRecord(
        row.text("prompt"), row.text("chosen"), row.text("rejected"), row.number("margin", 0.0), where=row.where
    )


def _prompt_record(row: JsonRow) -> Record:
    return PromptRecord(row.text("prompt"), row.optional_text("answer"), where=row.where)


_KINDS: dict[str, tuple[Callable[[JsonRow], Record], tuple[str, ...]]] = {
    "text": (_text_record, ("text",)),
    "prompt_response": (_response_record, ("prompt", "response")),
    "messages": (_messages_record, ("messages",)),
    "preference": (_preference_record, ("prompt", "chosen", "rejected", "margin")),
    "prompt": (_prompt_record, ("prompt", "answer")),
}
