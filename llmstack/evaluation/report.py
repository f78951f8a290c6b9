"""Files that commands write: checked before the work begins, written whole at its end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmstack.engine.atomic import finite_or_none, write_json, write_text
from llmstack.errors import UserError


@dataclass(frozen=True)
class Report:
    """What an evaluation found.

    Attributes:
        kind: which evaluation it was.
        numbers: name -> value, in the order they are shown.
        rows: what was found for each row of the data.
    """

    kind: str
    numbers: dict[str, int | float]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def table(self) -> str:
        """The numbers for a person to read, one a line."""
        width = max(map(len, self.numbers))
        return "".join(f"{name:<{width}}  {_shown(value):>10}\n" for name, value in self.numbers.items())

    def write(self, *, numbers: Path | None, rows: Path | None, about: Mapping[str, Any]) -> None:
        """Write what was asked for.

        Args:
            numbers: JSON file of the numbers; None: none.
            rows: JSON Lines file of the rows; None: none.
            about: what the numbers are of, put in front of them.
        """
        if numbers is not None:
            write_json(numbers, {"kind": self.kind, **about, **self.numbers})
        if rows is not None:
            write_rows(rows, self.rows)


def _shown(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def check_output(path: str | None, *, option: str) -> Path | None:
    """Refuse a file that could not be written, before hours are spent on what should go into it.

    Args:
        path: the file; None: the user wants none.
        option: with which it was named, for messages.

    Returns:
        The file.

    Raises:
        UserError: its folder is missing or read-only, or it is a folder itself.
    """
    if path is None:
        return None
    file = Path(path)
    if file.is_dir():
        raise UserError(f"{option}: expected a file, got the folder {file}. Name a file in it.")
    if not file.parent.is_dir():
        raise UserError(f"{option}: expected a file in an existing folder, got {file}. Make {file.parent} first.")
    if not os.access(file.parent, os.W_OK):
        raise UserError(f"{option}: expected a folder that can be written, got {file.parent}. Name another one.")
    return file


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON Lines file; numbers that are not finite become null.

    Args:
        path: the file, replaced when it exists.
        rows: one object a line.
    """
    lines = (json.dumps(finite_or_none(dict(row)), ensure_ascii=False, allow_nan=False) for row in rows)
    write_text(path, "".join(f"{line}\n" for line in lines))
