"""Hashes of files, remembered: a corpus of many gigabytes is read once for its hash, not at every start."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import llmstack
from llmstack.config.paths import data_cache_folder
from llmstack.errors import DataError

_BLOCK = 1 << 20
# a file this young may change once more within the clock tick its time of change is told in
_SETTLED_SECONDS = 2.0


def file_sha256(path: Path) -> str:
    """sha256 of a file's content, hex.

    A hash that was taken before holds as long as the file has the same size, times of change and inode.

    Args:
        path: the file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        stat = path.stat()
        # bytes, because a name need not be text
        stamp = (os.fsencode(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        with _memory() as memory:
            known = _recall(memory, stamp)
            if known is not None:
                return known
            digest = _read(path)
            if time.time() - max(stat.st_mtime, stat.st_ctime) > _SETTLED_SECONDS:
                _remember(memory, stamp, digest)
            return digest
    except OSError as error:
        raise DataError(f"{path}: expected a readable file, got {error.strerror}. Correct its permissions.") from error


def part_version(part: Any) -> str | None:
    """Hash of the source file of a class or function that is not llmstack's own.

    Args:
        part: what a plugin registered.

    Returns:
        sha256 hex; None for llmstack's own, which counts with its version numbers, and for what has no source file.
    """
    package = Path(llmstack.__file__).resolve().parent
    try:
        source = Path(inspect.getfile(part)).resolve()
    except (TypeError, OSError):  # a builtin or an instance; typed into an interactive session
        return None
    return None if package in source.parents or not source.is_file() else file_sha256(source)


@functools.cache
def own_version() -> str:
    """Hash of the code that turns files into tokens: a cache made by other code is not used.

    Returns:
        sha256 hex over every source file of this package.
    """
    folder = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _memory() -> Iterator[sqlite3.Connection | None]:
    """The table of known hashes; None where none can be kept."""
    folder = data_cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(folder / "file_hashes.sqlite", timeout=10.0)
    except (OSError, sqlite3.Error):
        yield None
        return
    with closing(connection):
        try:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, bytes INTEGER, changed_ns INTEGER, "
                "status_ns INTEGER, inode INTEGER, sha256 TEXT)"
            )
        except sqlite3.Error:  # a read-only or damaged table: hashes are then taken anew
            yield None
            return
        yield connection


def _recall(memory: sqlite3.Connection | None, stamp: tuple[Any, ...]) -> str | None:
    if memory is None:
        return None
    query = "SELECT sha256 FROM files WHERE path=? AND bytes=? AND changed_ns=? AND status_ns=? AND inode=?"
    try:
        row = memory.execute(query, stamp).fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else str(row[0])


def _remember(memory: sqlite3.Connection | None, stamp: tuple[Any, ...], digest: str) -> None:
    if memory is None:
        return
    try:
        with memory:
            memory.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", (*stamp, digest))
    except sqlite3.Error:  # another process holds it for long, or the disk is full: nothing is lost
        return
