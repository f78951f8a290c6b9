"""Packing pieces of documents into rows of one length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Piece:
    """A run of tokens that stays together in one row and attends only to itself.

    Attributes:
        tokens: int32 (n,), the inputs.
        labels: int32 (n,), what comes next in the same document; any id where ``loss_mask`` is 0.
        loss_mask: float32 (n,), 1 where the label is trained.
    """

    tokens: np.ndarray
    labels: np.ndarray
    loss_mask: np.ndarray


def document_pieces(ids: Sequence[int], seq_len: int) -> list[Piece]:
    """Cut a document into pieces of at most ``seq_len`` tokens, every token but the first being a label once.

    Where a document is cut the last label of a piece is the first token of the next, so cutting loses no label. The
    last token of the document has no label.

    Args:
        ids: the document with its ending token.
        seq_len: T.

    Returns:
        The pieces, in order.
    """
    tokens = np.asarray(ids, np.int32)
    labels = np.append(tokens[1:], tokens[-1:])
    mask = np.ones(len(tokens), np.float32)
    mask[-1] = 0.0
    return [
        Piece(tokens[start : start + seq_len], labels[start : start + seq_len], mask[start : start + seq_len])
        for start in range(0, len(tokens), seq_len)
    ]


def masked_piece(ids: Sequence[int], trained: Sequence[int], seq_len: int) -> Piece:
    """One piece in which only some tokens are labels; what lies beyond ``seq_len`` is cut off.

    Args:
        ids: tokens of the conversation.
        trained: as long as ``ids``; 1 where the token is to be predicted.
        seq_len: T.

    Returns:
        The piece. Position t trains when token t + 1 is to be predicted and was not cut off.
    """
    tokens = np.asarray(ids[:seq_len], np.int32)
    mask = np.zeros(len(tokens), np.float32)
    mask[:-1] = np.asarray(trained[1:seq_len], np.float32)
    return Piece(tokens, np.append(tokens[1:], tokens[-1:]), mask)


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


def pack_rows(pieces: Sequence[Piece], seq_len: int, pad_id: int) -> dict[str, np.ndarray]:
    """Fill rows with pieces.

    Args:
        pieces: each at most ``seq_len`` long.
        seq_len: T.
        pad_id: id that fills what is left of a row.

    Returns:
        ``tokens``, ``labels``, ``positions``, ``segments`` int32 (N, T) and ``loss_mask`` float32 (N, T).
        Segments count 1.. within a row, 0 is padding; positions restart at 0 in each segment.
    """
    bins = best_fit_decreasing([len(piece.tokens) for piece in pieces], seq_len)
    shape = (len(bins), seq_len)
    rows = {
        "tokens": np.full(shape, pad_id, np.int32),
        "labels": np.full(shape, pad_id, np.int32),
        "positions": np.zeros(shape, np.int32),
        "segments": np.zeros(shape, np.int32),
        "loss_mask": np.zeros(shape, np.float32),
    }
    places = np.arange(seq_len, dtype=np.int32)
    for row, members in enumerate(bins):
        start = 0
        for segment, member in enumerate(members, start=1):
            piece = pieces[member]
            end = start + len(piece.tokens)
            rows["tokens"][row, start:end] = piece.tokens
            rows["labels"][row, start:end] = piece.labels
            rows["loss_mask"][row, start:end] = piece.loss_mask
            rows["positions"][row, start:end] = places[: end - start]
            rows["segments"][row, start:end] = segment
            start = end
    return rows
