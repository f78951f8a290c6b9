"""Token files in Megatron's format: ``<prefix>.bin`` holds ids one after the other, ``<prefix>.idx`` where each starts.

The index, little-endian and without gaps: 9 bytes that name the format, the version (uint64, 1), a code for the dtype
of an id (uint8), the number N of sequences (uint64), the number D of document bounds (uint64), N lengths in tokens
(int32), N starts in bytes (int64) and D bounds in sequences (int64): document d is the sequences from bound d up to
bound d + 1.
Megatron-LM and MindFormers read and write such pairs.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from llmstack.errors import DataError

MAGIC, VERSION = b"MMIDIDX\x00\x00", 1
HEADER = struct.Struct("<9sQBQQ")
_NAMES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}
DTYPES = {code: np.dtype(name).newbyteorder("<") for code, name in _NAMES.items() if "int" in name}
"""The dtypes ids can have, by their code; the table's two floating-point ones hold no ids."""
_UINT16_VOCAB_SIZE = 65_500
_CHUNK = 1 << 22
_AGAIN = "It is damaged or was edited: write the pair again."


def index_path(prefix: str | Path) -> Path:
    """The index of a pair.

    Args:
        prefix: path of the pair without ``.bin`` and ``.idx``.
    """
    return Path(f"{prefix}.idx")


def token_path(prefix: str | Path) -> Path:
    """The ids of a pair.

    Args:
        prefix: path of the pair without ``.bin`` and ``.idx``.
    """
    return Path(f"{prefix}.bin")


def smallest_dtype(vocab_size: int) -> np.dtype[Any]:
    """What Megatron stores the ids of a vocabulary in.

    Args:
        vocab_size: number of ids.

    Returns:
        uint16 below 65,500 ids, else int32.
    """
    return np.dtype("<u2" if vocab_size < _UINT16_VOCAB_SIZE else "<i4")


class IndexedTokens:
    """A pair of token files, mapped into memory and never written to.

    The pair is checked before anything of it is used. Of N sequences 8 N bytes are held in memory; all else stays in
    the files. An object sent to another process opens the files there again.

    Args:
        prefix: path of the pair without ``.bin`` and ``.idx``.

    Attributes:
        dtype: of the ids.
        lengths: tokens of each sequence, int32 (N,).
        offsets: token at which each sequence starts, and the end of the last, int64 (N + 1,).
        documents: sequence at which each document starts, and the end of the last, int64 (D,).
        tokens: the ids of all sequences, ``dtype`` (``num_tokens``,).

    Raises:
        DataError: a file is missing or cannot be read, or the two do not fit together; names the file.
    """

    def __init__(self, prefix: str | Path) -> None:
        self._prefix = prefix
        index_file, token_file = index_path(prefix), token_path(prefix)
        _require_files(prefix, token_file, index_file)
        self.dtype, count, bounds = _read_header(index_file)
        self._index = _map(index_file, np.dtype("u1"))
        starts = HEADER.size + np.cumsum([0, 4 * count, 8 * count, 8 * bounds])
        parts = [self._index[begin:end].view(np.ndarray) for begin, end in zip(starts[:-1], starts[1:], strict=True)]
        self.lengths, pointers, self.documents = (
            part.view(kind) for part, kind in zip(parts, ("<i4", "<i8", "<i8"), strict=True)
        )
        self.offsets = _checked_offsets(index_file, self.lengths, pointers, self.dtype.itemsize)
        _check_token_file(token_file, index_file, self.num_tokens, self.dtype)
        _check_documents(index_file, self.documents, count)
        self.tokens: np.memmap[Any, Any] = _map(token_file, self.dtype)
        self._ids = self.tokens.view(np.ndarray)  # slices of a memmap cost several times as much
        self.release()

    @property
    def num_tokens(self) -> int:
        """Length of all sequences together."""
        return int(self.offsets[-1])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> NDArray[np.integer[Any]]:
        """Ids of one sequence, ``dtype`` (T,): a read-only view into the file."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"{self._prefix}: expected a sequence below {len(self)}, got {i}")
        i %= len(self)
        ids: NDArray[np.integer[Any]] = self._ids[self.offsets[i] : self.offsets[i + 1]]
        return ids

    def __reduce__(self) -> tuple[Callable[..., IndexedTokens], tuple[str | Path]]:
        return IndexedTokens, (self._prefix,)

    def largest_id(self) -> int:
        """Reads the whole file, a piece at a time.

        Returns:
            The largest id; -1 when there is no token.

        Raises:
            DataError: an id is negative.
        """
        largest = -1
        for part in _chunks(self.num_tokens):
            ids = self._ids[part]
            if ids.min() < 0:
                at = part.start + int(np.argmax(ids < 0))
                sequence = int(np.searchsorted(self.offsets, at, side="right")) - 1
                _refuse(token_path(self._prefix), "ids of at least 0", f"{self._ids[at]} in sequence {sequence}")
            largest = max(largest, int(ids.max()))
            self.release()
        return largest

    def release(self) -> None:
        """Give the pages that were read back to the system, so that they no longer count as memory of this process.

        Arrays taken from the files stay valid: what is used again is read again. Does nothing on a system that cannot.
        """
        for mapped in (self.tokens, self._index):
            if isinstance(mapped.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                mapped.base.madvise(mmap.MADV_DONTNEED)


def _refuse(path: Path, expected: str, found: str, fix: str = _AGAIN) -> NoReturn:
    raise DataError(f"{path}: expected {expected}, got {found}. {fix}")


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK))


def _require_files(prefix: str | Path, token_file: Path, index_file: Path) -> None:
    for path, other in ((token_file, index_file), (index_file, token_file)):
        if path.is_file():
            continue
        if Path(prefix).suffix in (".bin", ".idx") and Path(prefix).is_file():
            fix = f"Name the pair without the ending: {Path(prefix).with_suffix('')}."
        elif path == index_file and other.is_file():
            fix = "The index is written last, so the pair was not finished: write it again."
        else:
            fix = "Correct the path: what both files have before .bin and .idx."
        _refuse(path, f"a file beside {other.name}", "a folder" if path.is_dir() else "no such file", fix)


def _map(path: Path, dtype: np.dtype[Any]) -> np.memmap[Any, Any]:
    if path.stat().st_size == 0:  # which no system maps
        return np.empty(0, dtype).view(np.memmap)
    try:
        return np.memmap(path, dtype=dtype, mode="r")
    except OSError as error:
        _refuse(path, "a readable file", str(error.strerror), "Check its permissions.")


def _read_header(path: Path) -> tuple[np.dtype[Any], int, int]:
    """The dtype, N and D of an index, once its length agrees with them."""
    try:
        with path.open("rb") as file:
            raw = file.read(HEADER.size)
    except OSError as error:
        _refuse(path, "a readable file", str(error.strerror), "Check its permissions.")
    if raw[: len(MAGIC)] != MAGIC:
        _refuse(path, f"an index that begins with {MAGIC!r}", repr(raw[: len(MAGIC)]), "Name Megatron token files.")
    if len(raw) < HEADER.size:
        _refuse(path, f"at least {HEADER.size} bytes", f"{len(raw)}", "It was cut off: write the pair again.")
    _, version, code, count, bounds = HEADER.unpack(raw)
    if version != VERSION:
        _refuse(path, f"version {VERSION} of the format", f"{version}")
    if code not in DTYPES:
        known = ", ".join(f"{code} ({dtype.name})" for code, dtype in DTYPES.items())
        _refuse(path, f"a dtype code for ids among {known}", f"{code} ({_NAMES.get(code, 'unknown')})")
    needed, found = HEADER.size + 12 * count + 8 * bounds, path.stat().st_size
    if found == needed + count > needed:
        _refuse(path, "an index of text", "one with a mode for each sequence (multimodal)", "Write it without modes.")
    if found != needed:
        _refuse(path, f"{needed} bytes for {count} sequences and {bounds} document bounds", f"{found}")
    return DTYPES[code], count, bounds


def _checked_offsets(
    path: Path, lengths: NDArray[np.int32], pointers: NDArray[np.int64], itemsize: int
) -> NDArray[np.int64]:
    """Where sequences start, in tokens (N + 1,); a piece at a time, so that no copy of the index is made."""
    for part in _chunks(len(lengths)):
        if lengths[part].min() < 0:
            at = part.start + int(np.argmax(lengths[part] < 0))
            _refuse(path, "lengths of at least 0", f"{lengths[at]} for sequence {at}")
    offsets = np.zeros(len(lengths) + 1, np.int64)
    for part in _chunks(len(lengths)):
        ends = offsets[part.start + 1 : part.stop + 1]
        np.cumsum(lengths[part], dtype=np.int64, out=ends)
        ends += offsets[part.start]
        wrong = np.flatnonzero(pointers[part] != offsets[part] * itemsize)
        if wrong.size:
            at = part.start + int(wrong[0])
            expected = f"sequence {at} to start at byte {int(offsets[at]) * itemsize}, behind those before it"
            _refuse(path, expected, f"{pointers[at]}")
    return offsets


def _check_token_file(path: Path, index_file: Path, num_tokens: int, dtype: np.dtype[Any]) -> None:
    needed, found = num_tokens * dtype.itemsize, path.stat().st_size
    if found != needed:
        fix = "It was cut off" if found < needed else "It is not the file this index was written for"
        says = f"{needed} bytes as {index_file.name} says ({num_tokens} ids of {dtype.name})"
        _refuse(path, says, f"{found}", f"{fix}: write the pair again.")


def _check_documents(path: Path, documents: NDArray[np.int64], count: int) -> None:
    expected = f"document bounds that rise from 0 to {count}, the number of sequences"
    if not len(documents):
        _refuse(path, expected, "none")
    if documents[0] != 0 or documents[-1] != count:
        _refuse(path, expected, f"{documents[0]} to {documents[-1]}")
    falls = np.flatnonzero(documents[1:] < documents[:-1])
    if falls.size:
        at = int(falls[0])
        _refuse(path, expected, f"{documents[at + 1]} behind {documents[at]}")
