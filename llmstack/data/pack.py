"""Packing: which stretch of which document lies where in which row.

Nothing is copied here. The result names stretches of the documents' tokens; a batch is put together from them when it
is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from llmstack.data.cache import cached_folder
from llmstack.data.documents import Documents
from llmstack.data.hashing import own_version

Packing: TypeAlias = Literal["best_fit", "sequential", "none"]

# best fit looks at this many pieces at a time: enough to fill rows, few enough to hold in memory
_WINDOW = 1 << 16
_WORTH_KEEPING = 1 << 17
_MASK_BLOCK = 1 << 24


@dataclass(frozen=True)
class Pieces:
    """Stretches of tokens, each staying together in one row and attending only to itself.

    Attributes:
        start: int64 (M,), place of the first token.
        length: int32 (M,), tokens.
        going_on: bool (M,), whether the token behind the last one is the label of that last one (where a document is
            cut), not only the beginning of something else.
        targets: int32 (M,), positions with a trained label.
    """

    start: np.ndarray
    length: np.ndarray
    going_on: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    def take(self, order: np.ndarray) -> Pieces:
        """Some of the pieces.

        Args:
            order: int (N,), their numbers.
        """
        return Pieces(self.start[order], self.length[order], self.going_on[order], self.targets[order])


@dataclass(frozen=True)
class Packed:
    """Pieces in rows.

    Attributes:
        pieces: in the order of the rows.
        bounds: int64 (N + 1,), the first piece of each row and the end of the last.
    """

    pieces: Pieces
    bounds: np.ndarray


def cut_documents(bounds: np.ndarray, seq_len: int) -> Pieces:
    """Documents whose every token is trained, cut into pieces of at most ``seq_len`` tokens.

    Where a document is cut the last label of a piece is the first token of the next, so cutting loses no label. The
    last token of a document has no label.

    Args:
        bounds: int64 (M + 1,), where each document starts and the last ends.
        seq_len: T.

    Returns:
        The pieces, in order.
    """
    # millions of pieces: arrays no wider than need be, changed in place
    left = np.diff(bounds).astype(np.int32)
    counts = -(-left // seq_len)
    start = np.repeat(bounds[:-1], counts)
    left = np.repeat(left, counts)
    offset = np.arange(len(start), dtype=np.int32)
    offset -= np.repeat((np.cumsum(counts) - counts).astype(np.int32), counts)
    offset *= seq_len
    start += offset
    left -= offset
    going_on = left > seq_len
    length = np.minimum(left, seq_len, out=left)
    return Pieces(start, length, going_on, length - ~going_on)


def cut_stream(bounds: np.ndarray, seq_len: int, order: np.ndarray) -> Packed:
    """Documents one after the other in one stream that is cut wherever a row is full.

    Args:
        bounds: int64 (M + 1,), where each document starts and the last ends.
        seq_len: T.
        order: int (M,), the documents in the order of the stream.

    Returns:
        Rows of which only the last may have room left.
    """
    lengths = np.diff(bounds)[order]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    total = int(ends[-1])
    cuts = np.union1d(starts[lengths > 0], np.arange(0, total, seq_len))
    document = np.searchsorted(ends, cuts, side="right")
    behind = np.append(cuts[1:], total)
    going_on = behind < ends[document]
    length = (behind - cuts).astype(np.int32)
    pieces = Pieces(bounds[order[document]] + cuts - starts[document], length, going_on, length - ~going_on)
    rows = np.arange(0, total, seq_len)
    return Packed(pieces, np.append(np.searchsorted(cuts, rows), len(cuts)))


def truncate_documents(documents: Documents, seq_len: int) -> Pieces:
    """One piece a document; what lies beyond ``seq_len`` is cut off.

    Position t trains when token t + 1 is to be produced and was not cut off.

    Args:
        documents: with a mask.
        seq_len: T.

    Returns:
        One piece a document, in order; ``targets`` is 0 where nothing is left to train.
    """
    lengths = np.minimum(documents.lengths, seq_len).astype(np.int32)
    targets = _count_trained(documents, lengths)
    return Pieces(documents.bounds[:-1], lengths, np.zeros(len(lengths), bool), targets)


def _count_trained(documents: Documents, lengths: np.ndarray) -> np.ndarray:
    """Trained tokens of each document, its first one and those beyond ``lengths`` left out."""
    bounds, mask = documents.bounds, documents.mask
    if mask is None:
        return np.maximum(lengths - 1, 0)
    counts = np.zeros(len(lengths), np.int32)
    first = 0
    while first < len(lengths):  # a block of documents at a time: the mask may be larger than memory
        last = max(int(np.searchsorted(bounds, bounds[first] + _MASK_BLOCK, side="right")) - 1, first + 1)
        last = min(last, len(lengths))
        base = bounds[first]
        sums = np.zeros(int(bounds[last] - base) + 1, np.int64)
        np.cumsum(mask[base : bounds[last]], dtype=np.int64, out=sums[1:])
        start = bounds[first:last] - base
        kept = lengths[first:last]
        counts[first:last] = sums[start + kept] - sums[start + np.minimum(kept, 1)]
        first = last
    return counts


def pack(pieces: Pieces, seq_len: int, packing: Packing, order: np.ndarray | None) -> Packed:
    """Put whole pieces into rows.

    Args:
        pieces: each at most ``seq_len`` long.
        seq_len: T.
        packing: ``best_fit``; ``sequential``: each in turn into the current row, a new row when it does not fit;
            ``none``: a row each.
        order: int (M,), the order for ``sequential`` and ``none``; None: that of the pieces.

    Returns:
        The rows.
    """
    if packing == "best_fit":
        members, bounds = _best_fit(pieces.length, seq_len)
        return Packed(pieces.take(members), bounds)
    order = np.arange(len(pieces)) if order is None else order
    if packing == "none":
        return Packed(pieces.take(order), np.arange(len(pieces) + 1, dtype=np.int64))
    return Packed(pieces.take(order), _next_fit(pieces.length[order], seq_len))


def _best_fit(lengths: np.ndarray, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Items in the order of their bins, int32 (M,), and where each bin starts and the last ends (N + 1,).

    What took long is kept in the cache: it is a function of the lengths alone.
    """
    if len(lengths) <= _WORTH_KEEPING:
        return _fill_bins(lengths, capacity)
    text = f"{own_version()} {_WINDOW} {capacity}".encode()

    def build(folder: Path) -> None:
        for name, array in zip(("members", "bounds"), _fill_bins(lengths, capacity), strict=True):
            np.save(folder / f"{name}.npy", array, allow_pickle=False)

    key = hashlib.sha256(text + np.ascontiguousarray(lengths).tobytes()).hexdigest()
    folder = cached_folder("packed", key, build)
    members, bounds = (np.load(folder / f"{name}.npy", allow_pickle=False) for name in ("members", "bounds"))
    return members, bounds


def _fill_bins(lengths: np.ndarray, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    members, sizes = [np.zeros(0, np.int32)], [np.zeros(1, np.int32)]
    for start in range(0, len(lengths), _WINDOW):
        rows = best_fit_decreasing(lengths[start : start + _WINDOW].tolist(), capacity)
        sizes.append(np.fromiter(map(len, rows), np.int32, len(rows)))
        members.append(np.fromiter(chain.from_iterable(rows), np.int32) + np.int32(start))
    return np.concatenate(members), np.cumsum(np.concatenate(sizes), dtype=np.int64)


def _next_fit(lengths: np.ndarray, capacity: int) -> np.ndarray:
    bounds, room = [0], capacity
    for number, length in enumerate(lengths.tolist()):
        if length > room:
            bounds.append(number)
            room = capacity
        room -= length
    return np.asarray([*bounds, len(lengths)], np.int64)


def best_fit_decreasing(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Put items into bins: longest first, each into the fullest bin that still holds it.

    Packing whole documents this way keeps them uncut at almost no padding (Ding et al. 2024, "Fewer Truncations Improve
    Language Modeling", section 3). Ties go to the earlier item and the bin opened last, so the result is a function
    of the lengths alone.

    Args:
        lengths: size of each item, 1..capacity.
        capacity: size of a bin.

    Returns:
        For each bin the indices of its items, in the order they were put in.
    """
    order = sorted(range(len(lengths)), key=lambda item: (-lengths[item], item))
    bins: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    rooms = 0  # bit r is set while a bin has exactly r places left: the best fit is the lowest bit >= the length
    for item in order:
        length = lengths[item]
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            chosen = by_room[room].pop()
            if not by_room[room]:
                rooms &= ~(1 << room)
        else:
            room, chosen = capacity, len(bins)
            bins.append([])
        bins[chosen].append(item)
        left = room - length
        if left:
            by_room[left].append(chosen)
            rooms |= 1 << left
    return bins
