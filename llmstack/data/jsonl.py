"""JSON Lines files, read line by line with messages that name file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.files import read_lines, resolve_files
from llmstack.errors import DataError


def json_rows(pattern: str, fields: FieldMap, *, max_bytes: int | None = None) -> Iterator[FieldRow]:
    """The objects of some JSON Lines files, one after the other, in file order; blank lines are skipped.

    Args:
        pattern: a file or a glob.
        fields: what the file calls our fields.
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
                yield FieldRow(_parse(line, where), where, fields)
                empty = False
    if empty:
        raise DataError(f"{pattern}: expected at least one JSON object, got an empty data set. Name another.")


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise DataError(
            f"{where}: expected one JSON object, got malformed JSON ({what}). Correct or delete the line."
        ) from error
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected one JSON object, got a {type(value).__name__}. Correct or delete the line.")
    return value
