"""An output folder that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from llmstack.errors import UserError

_TEMPORARY = ".tmp-"


def check_new(path: Path, *, option: str = "--out") -> None:
    """Refuse a place where something is already.

    Args:
        path: where a folder will be made.
        option: what the user wrote it behind, for messages.

    Raises:
        UserError: a file, or a folder that is not empty.
    """
    is_folder = path.is_dir() and not path.is_symlink()
    if is_folder and any(path.iterdir()) or not is_folder and os.path.lexists(path):
        kind = "a folder with files in it" if is_folder else "no folder"
        raise UserError(f"{option}: expected a new or empty folder, got {path}, {kind}. Name another, or remove it.")


@contextmanager
def new_folder(path: Path, *, option: str = "--out") -> Iterator[Path]:
    """Make a folder beside its place and move it there when it is complete.

    Args:
        path: where the folder will be; missing or empty.
        option: what the user wrote it behind, for messages.

    Yields:
        The folder to write into. When the block raises, it is removed and nothing is left.

    Raises:
        UserError: something is there already, or no folder can be made there.
    """
    path = Path(os.path.abspath(path))
    check_new(path, option=option)
    temporary = path.with_name(f"{_TEMPORARY}{path.name}")
    made = [parent for parent in path.parents if not parent.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)  # what a killed run left
        temporary.mkdir()
    except OSError as error:
        raise UserError(f"{option}: expected a place for a folder, got {path}: {error}. Name another.") from error
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in made:
            with suppress(OSError):  # somebody else may have put something there
                parent.rmdir()
        raise
