"""Text files of the user: which ones a pattern names, and what they hold."""

from __future__ import annotations

import codecs
import glob
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from llmstack.errors import DataError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
"""How a file is packed, by the end of its name."""

BLOCK_BYTES = 1 << 20
"""Most bytes read at once."""

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
    return hash_contents(resolve_files(pattern))


def hash_contents(paths: Iterable[Path]) -> str:
    """Hash of the contents of files, one after the other.

    Args:
        paths: the files, in order.

    Returns:
        sha256 hex.

    Raises:
        DataError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                for block in iter(lambda: file.read(BLOCK_BYTES), b""):
                    digest.update(block)
        except OSError as error:
            raise DataError(
                f"{path}: expected a readable file, got {error.strerror}. Correct its permissions."
            ) from error
    return digest.hexdigest()


def is_jsonl(name: str) -> bool:
    """Whether a file is JSON Lines by its name, packed or not.

    Args:
        name: a path or a glob.
    """
    path = Path(name)
    return (path.with_suffix("") if path.suffix in COMPRESSIONS else path).suffix == ".jsonl"


def read_text(path: Path) -> str:
    """Read a UTF-8 file, naming the file and line of the first byte that is not.

    Args:
        path: the file; packed when its name ends in ``.gz`` or ``.zst``.

    Returns:
        Its text, with line ends as ``\\n``.

    Raises:
        DataError: the file cannot be read or unpacked, or is not UTF-8.
    """
    return "".join(text for _, text in text_chunks(path))


def read_lines(path: Path, *, max_bytes: int | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, one after the other, in memory that does not grow with the file.

    Args:
        path: the file; packed when its name ends in ``.gz`` or ``.zst``.
        max_bytes: length above which a line is refused; None: any length.

    Yields:
        Number, from 1, and text of each line, without its end.

    Raises:
        DataError: the file cannot be read or unpacked, is not UTF-8, or has a longer line.
    """
    for first, text in text_chunks(path, max_bytes=max_bytes):
        yield from enumerate(text.removesuffix("\n").split("\n"), start=first)


def text_chunks(path: Path, *, max_bytes: int | None = None) -> Iterator[tuple[int, str]]:
    """A UTF-8 file in pieces of whole lines that together are its text.

    Args:
        path: the file; packed when its name ends in ``.gz`` or ``.zst``.
        max_bytes: length above which a line is refused; None: any length.

    Yields:
        Number of the piece's first line, from 1, and its text: without a byte-order mark, line ends as ``\\n``.

    Raises:
        DataError: the file cannot be read or unpacked, is not UTF-8, or has a longer line.
    """
    line, begun, size = 1, list[bytes](), 0
    for block in _blocks(path):
        whole = block.rfind(b"\n") + 1
        if whole:
            text = _decode(b"".join([*begun, block[:whole]]), path, line, max_bytes)
            yield line, text
            line += text.count("\n")
            begun, size = [], 0
        begun.append(block[whole:])
        size += len(block) - whole
        if max_bytes is not None and size > max_bytes:
            raise too_long(f"{path}:{line}", max_bytes)
    rest = _decode(b"".join(begun), path, line, max_bytes)
    if rest:
        yield line, rest


def too_long(where: str, max_bytes: int) -> DataError:
    """What to raise for a record that is longer than a record may be.

    Args:
        where: file and line it begins at.
        max_bytes: the limit.
    """
    return DataError(
        f"{where}: expected a record of at most {max_bytes} bytes (max_record_bytes), got a longer one. "
        "Split it, or raise max_record_bytes."
    )


def _decode(raw: bytes, path: Path, line: int, max_bytes: int | None) -> str:
    """Whole lines from their bytes; ``line`` is the number of the first."""
    if line == 1:
        raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        text = _unix(raw.decode())
    except UnicodeDecodeError as error:
        line += _unix(raw[: error.start].decode()).count("\n")
        raise DataError(
            f"{path}:{line}: expected UTF-8 text, got byte {raw[error.start]:#04x}. Convert the file to UTF-8."
        ) from error
    if max_bytes is not None and len(raw) > max_bytes:
        for number, part in enumerate(text.split("\n"), start=line):
            if len(part.encode()) > max_bytes:
                raise too_long(f"{path}:{number}", max_bytes)
    return text


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _blocks(path: Path) -> Iterator[bytes]:
    """A file's bytes, unpacked, a bounded number at a time."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: expected a readable file, got {error.strerror}. Check its permissions.") from error
    with file:
        if path.suffix in COMPRESSIONS:
            yield from _unpacked(file, path)
            return
        while block := file.read(BLOCK_BYTES):
            yield block


def _unpacked(file: IO[bytes], path: Path) -> Iterator[bytes]:
    import pyarrow  # type: ignore[import-untyped]

    kind = COMPRESSIONS[path.suffix]
    reason = "an empty file"
    if file.read(1):
        file.seek(0)
        try:
            with pyarrow.input_stream(file, compression=kind) as stream:
                while block := stream.read(BLOCK_BYTES):
                    yield block
            return
        except OSError as error:
            reason = str(error)
    raise DataError(f"{path}: expected a whole {kind} archive, got {reason}. Make or copy the file again.")


def is_text(value: str) -> bool:
    """Whether a string is made of characters alone.

    Args:
        value: may hold halves of surrogate pairs: from a ``\\ud800`` in JSON, or from bytes that are not UTF-8 on the
            command line.
    """
    return value.isascii() or not _SURROGATE.search(value)
