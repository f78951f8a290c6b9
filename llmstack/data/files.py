"""Text files of the user: which ones a pattern names, and what they hold."""

from __future__ import annotations

import glob
import hashlib
import re
from pathlib import Path

from llmstack.errors import DataError

_SURROGATE = re.compile("[\ud800-\udfff]")


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
            "Correct the path (it counts from the working directory)."
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


def is_text(value: str) -> bool:
    """Whether a string is made of characters alone.

    Args:
        value: may hold halves of surrogate pairs: from a ``\\ud800`` in JSON, or from bytes that are not UTF-8 on the
            command line.
    """
    return not _SURROGATE.search(value)
