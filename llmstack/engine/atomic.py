"""Files that are there whole or not at all, also after a crash or a power cut."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TEMPORARY, _REPLACED = ".tmp-", ".replaced-"


def finite_or_none(value: Any) -> Any:
    """Replaces every non-finite float in a JSON value by None, which JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_or_none(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_or_none(item) for item in value]
    return value


def fsync_path(path: Path) -> None:
    """Waits until a file's content, or a folder's list of entries, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Writes a file beside its place and renames it there."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    fsync_path(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Writes strict JSON (no NaN, no Infinity: they become null) as :func:`write_text` does."""
    write_text(path, json.dumps(finite_or_none(value), indent=2, allow_nan=False) + "\n")


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Makes a folder appear at once with all its files; one that is there already is replaced.

    Args:
        path: where the folder will be.
        fill: writes the files into the empty folder it is given.
    """
    temporary = path.with_name(f"{_TEMPORARY}{path.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    fill(temporary)
    for folder, _, names in os.walk(temporary):
        for name in names:
            fsync_path(Path(folder, name))
        fsync_path(Path(folder))
    replaced = path.with_name(f"{_REPLACED}{path.name}")
    shutil.rmtree(replaced, ignore_errors=True)
    if path.exists():
        os.rename(path, replaced)
    os.rename(temporary, path)
    fsync_path(path.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def recover_folders(parent: Path) -> None:
    """Puts right what a kill inside :func:`write_folder` left in a folder: nothing half written, nothing lost.

    Args:
        parent: where folders were being written; may be missing.
    """
    for replaced in parent.glob(f"{_REPLACED}*"):
        path = parent / replaced.name[len(_REPLACED) :]
        if not path.exists():  # killed between the two renames
            os.rename(replaced, path)
    for leftover in (*parent.glob(f"{_REPLACED}*"), *parent.glob(f"{_TEMPORARY}*")):
        shutil.rmtree(leftover, ignore_errors=True)
