"""Rows of documents, several to a row, put together when a batch is taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from typing_extensions import Self

from llmstack.data.documents import Documents
from llmstack.data.pack import Packed, Pieces
from llmstack.data.row_tables import Batch, EncodeReport, Origin, Rows, ranges
from llmstack.data.token_space import TokenSpace


class PackedRows(Rows):
    """Rows of documents, several to a row.

    Args:
        space: has the tokens.
        packed: which of them lie where.
        seq_len: T.
        pad_id: id that fills what is left of a row.
        report: what became of the records.

    Attributes:
        row_targets: int (N,), trained positions of each row.
        seq_len: T.
    """

    def __init__(self, space: TokenSpace, packed: Packed, seq_len: int, pad_id: int, report: EncodeReport) -> None:
        self._space, self._packed, self._pad_id = space, packed, pad_id
        self.seq_len, self.report = seq_len, report
        first = packed.bounds[:-1]
        self.row_tokens = np.add.reduceat(packed.pieces.length, first, dtype=np.int32)
        self.row_targets = np.add.reduceat(packed.pieces.targets, first, dtype=np.int32)

    def take(self, indices: np.ndarray) -> Batch:
        """A batch of packed rows.

        Args:
            indices: int (B,).

        Returns:
            ``tokens, labels, positions, segments`` int32 (B, T), ``loss_mask`` float32 (B, T). Segments count 1..
            within a row, 0 is padding; positions restart at 0 in each segment.
        """
        bounds, pieces = self._packed.bounds, self._packed.pieces
        counts = bounds[indices + 1] - bounds[indices]
        piece = ranges(bounds[indices], counts)
        length = pieces.length[piece].astype(np.int64)
        within = ranges(np.zeros(len(length), np.int64), length)
        before = np.cumsum(length) - length
        row = np.repeat(np.arange(len(indices)), counts)
        # places before a piece in its row: those before it in the batch less those before the row's first piece
        in_row = before - np.repeat(before[np.cumsum(counts) - counts], counts)
        place = np.repeat(row * self.seq_len + in_row, length) + within
        source = np.repeat(pieces.start[piece], length) + within
        batch = self._empty(len(indices))
        tokens, labels = self._space.tokens(source), self._space.tokens(source + 1)
        trained = self._space.mask(source + 1)
        mask = np.ones(len(source), np.float32) if trained is None else trained.astype(np.float32)
        ends = (before + length - 1)[~pieces.going_on[piece]]
        labels[ends], mask[ends] = tokens[ends], 0.0
        segment = ranges(np.ones(len(indices), np.int64), counts)
        for name, values in (
            ("tokens", tokens),
            ("labels", labels),
            ("loss_mask", mask),
            ("positions", within),
            ("segments", np.repeat(segment, length)),
        ):
            batch[name].reshape(-1)[place] = values
        self._space.note_reads(len(piece), len(source))
        return batch

    @property
    def documents(self) -> list[Documents]:
        """The encoded documents the rows are made of, of each data set."""
        return self._space.parts

    def origins(self, row: int) -> list[Origin]:
        """Where each segment of a row comes from.

        Args:
            row: its number.
        """
        first, last = self._packed.bounds[row : row + 2]
        return [Origin(*self._space.origin(int(start))) for start in self._packed.pieces.start[first:last]]

    def _empty(self, rows: int) -> Batch:
        shape = (rows, self.seq_len)
        return {
            "tokens": np.full(shape, self._pad_id, np.int32),
            "labels": np.full(shape, self._pad_id, np.int32),
            "positions": np.zeros(shape, np.int32),
            "segments": np.zeros(shape, np.int32),
            "loss_mask": np.zeros(shape, np.float32),
        }

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The rows of several data sets of one row length, one set after the other.

        Args:
            parts: at least one.
        """
        space = TokenSpace([documents for part in parts for documents in part._space.parts])
        starts = np.cumsum([0, *(part._space.starts[-1] for part in parts)])
        pieces = [part._packed.pieces for part in parts]
        joined = Pieces(
            np.concatenate([own.start + start for own, start in zip(pieces, starts[:-1], strict=True)]),
            *(np.concatenate([getattr(own, name) for own in pieces]) for name in ("length", "going_on", "targets")),
        )
        bounds = _joined_bounds([part._packed.bounds for part in parts])
        first = parts[0]
        padding = 1.0 - float(joined.length.sum()) / ((len(bounds) - 1) * first.seq_len)
        report = EncodeReport.joined([part.report for part in parts], padding)
        return cls(space, Packed(joined, bounds), first.seq_len, first._pad_id, report)

    def blank(self, batch: Batch, padding: np.ndarray) -> None:
        """Empty the rows of a batch that only fill it up.

        Args:
            batch: changed in place.
            padding: bool (B,), true for the rows to empty.
        """
        batch["loss_mask"][padding] = 0.0
        batch["segments"][padding] = 0
        batch["positions"][padding] = 0


def _joined_bounds(parts: Sequence[np.ndarray]) -> np.ndarray:
    starts = np.cumsum([0, *(part[-1] for part in parts)])
    own = [part[:-1] + start for part, start in zip(parts, starts[:-1], strict=True)]
    return np.concatenate([*own, starts[-1:]])
