"""Writing token files in Megatron's format: the ids as they come, the index when all are there."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import Self

from llmstack.data.indexed import DTYPES, HEADER, MAGIC, VERSION, index_path, token_path
from llmstack.errors import DataError

_LONGEST = int(np.iinfo(np.int32).max)
_BUFFER_BYTES = 1 << 20
_CHUNK = 1 << 20


class IndexedWriter:
    """Writes ``<prefix>.bin`` and, when the ``with`` block ends, ``<prefix>.idx``; replaces a pair that is there.

    Each sequence is a document of its own unless :meth:`end_document` is called. Left through an exception, nothing
    remains. 4 bytes a sequence are held in memory, and 8 a document that was ended.

    Args:
        prefix: path of the pair without ``.bin`` and ``.idx``; its folder is made when it does not exist.
        dtype: how an id is stored: uint8, int8, uint16, int16, int32 or int64 (see
            :func:`~llmstack.data.indexed.smallest_dtype`).

    Raises:
        DataError: the dtype is another one.
    """

    def __init__(self, prefix: str | Path, dtype: DTypeLike) -> None:
        self._bin, self._idx = token_path(prefix), index_path(prefix)
        self._temporary = Path(f"{self._idx}.tmp")
        self._dtype = np.dtype(dtype).newbyteorder("<")
        if self._dtype not in DTYPES.values():
            known = ", ".join(kind.name for kind in DTYPES.values())
            raise DataError(f"{self._bin}: expected ids stored as {known}, got {self._dtype.name}. Choose one of them.")
        self._code = next(code for code, kind in DTYPES.items() if kind == self._dtype)
        self._largest = int(np.iinfo(self._dtype).max)
        self._lengths, self._bounds = array("i"), array("q")
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        """Opens the file of ids.

        Raises:
            DataError: it cannot be made there.
        """
        with _writing(self._bin):
            self._bin.parent.mkdir(parents=True, exist_ok=True)
            # removed, not emptied: whoever has the old pair mapped keeps it
            for path in (self._idx, self._temporary, self._bin):
                path.unlink(missing_ok=True)
            self._file = self._bin.open("xb", buffering=_BUFFER_BYTES)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Writes the index, or removes what was written when the block failed.

        Raises:
            DataError: the disk is full, or another fault of the file system.
        """
        try:
            with _writing(self._bin):
                self._finish(keep=kind is None)
        except BaseException:
            self._discard()
            raise

    def add(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> None:
        """Append one sequence.

        Args:
            ids: whole numbers of at least 0 that fit the dtype, (T,); may be empty.

        Raises:
            DataError: they are not, or the file cannot be written.
        """
        flat = np.asarray(ids)
        self._append(flat, np.array([flat.size]))

    def add_many(self, flat: Sequence[int] | NDArray[np.integer[Any]], lengths: Sequence[int] | NDArray[Any]) -> None:
        """Append many sequences.

        Args:
            flat: their ids one after the other, (the sum of ``lengths``,).
            lengths: tokens of each, (N,).

        Raises:
            DataError: an id does not fit the dtype, the lengths do not add up, or the file cannot be written.
        """
        self._append(np.asarray(flat), np.asarray(lengths))

    def end_document(self) -> None:
        """The sequences since the last call are one document; so are those that follow the last call of all."""
        self._bounds.append(len(self._lengths))

    def _append(self, flat: NDArray[Any], lengths: NDArray[Any]) -> None:
        if self._file is None:
            raise RuntimeError("an IndexedWriter is used inside its `with` block")
        self._check_lengths(flat, lengths)
        self._check_ids(flat, lengths)
        with _writing(self._bin):
            self._file.write(np.ascontiguousarray(flat, dtype=self._dtype).data)
        self._lengths.frombytes(lengths.astype(np.intc).tobytes())

    def _check_lengths(self, flat: NDArray[Any], lengths: NDArray[Any]) -> None:
        if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
            found = f"{lengths.dtype.name} {lengths.shape}"
            raise DataError(f"{self._bin}: expected lengths as whole numbers (N,), got {found}. Flatten them.")
        if lengths.size and not (0 <= lengths.min() and lengths.max() <= _LONGEST):
            found = f"{lengths.min()} to {lengths.max()}"
            raise DataError(f"{self._bin}: expected lengths from 0 to {_LONGEST}, got {found}. Split longer sequences.")
        if flat.ndim == 1 and (total := int(lengths.sum(dtype=np.int64))) != flat.size:
            raise DataError(
                f"{self._bin}: expected {total} ids as the lengths say, got {flat.size}. Correct one of them."
            )

    def _check_ids(self, flat: NDArray[Any], lengths: NDArray[Any]) -> None:
        if flat.ndim != 1 or (flat.size and flat.dtype.kind not in "iu"):
            found = f"{flat.dtype.name} {flat.shape}"
            raise DataError(
                f"{self._bin}: expected ids as whole numbers (T,), got {found}. Give the ids of a tokenizer."
            )
        if flat.size and not (flat.min() >= 0 and flat.max() <= self._largest):
            at = int(np.argmax((flat < 0) | (flat > self._largest)))
            sequence = len(self._lengths) + int(np.searchsorted(np.cumsum(lengths), at, side="right"))
            raise DataError(
                f"{self._bin}: expected ids from 0 to {self._largest} ({self._dtype.name}), got {flat[at]} in sequence "
                f"{sequence}. Choose a dtype that holds the whole vocabulary."
            )

    def _finish(self, *, keep: bool) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        if not keep:
            with suppress(OSError):  # the fault that ended the block is the one to tell
                file.close()
            self._discard()
            return
        with file:
            file.flush()
            os.fsync(file.fileno())
        with self._temporary.open("wb", buffering=_BUFFER_BYTES) as index:
            for block in self._index_blocks():
                index.write(block)
            index.flush()
            os.fsync(index.fileno())
        os.replace(self._temporary, self._idx)
        _sync_folder(self._idx.parent)

    def _index_blocks(self) -> Iterator[bytes]:
        lengths = np.frombuffer(self._lengths, dtype=np.intc)
        count = len(lengths)
        if self._bounds and self._bounds[-1] != count:
            self._bounds.append(count)
        bounds = np.frombuffer(self._bounds, dtype=np.int64) if self._bounds else None
        num_bounds = 1 + (count if bounds is None else len(bounds))
        yield HEADER.pack(MAGIC, VERSION, self._code, count, num_bounds)
        yield lengths.astype("<i4").tobytes()
        start = 0
        for first in range(0, count, _CHUNK):
            ends = start + np.cumsum(lengths[first : first + _CHUNK], dtype=np.int64)
            yield (np.concatenate(([start], ends[:-1])) * self._dtype.itemsize).astype("<i8").tobytes()
            start = int(ends[-1])
        yield np.int64(0).tobytes()
        if bounds is not None:
            yield bounds.astype("<i8").tobytes()
            return
        for first in range(1, count + 1, _CHUNK):
            yield np.arange(first, min(first + _CHUNK, count + 1), dtype="<i8").tobytes()

    def _discard(self) -> None:
        for path in (self._idx, self._temporary, self._bin):
            with suppress(OSError):
                path.unlink()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{path}: expected to write here, got {reason}. Make room, or name another folder.") from error


def _sync_folder(folder: Path) -> None:
    """Waits until the folder's list of entries is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
