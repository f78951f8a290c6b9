"""Rows of one sample each, padded to the smallest of a few lengths: preference pairs and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from llmstack.data.documents import Documents
from llmstack.data.row_tables import Batch, EncodeReport, Origin, Rows, ranges
from llmstack.data.token_space import TokenSpace


class PreferenceRows(Rows):
    """Pairs of answers to one prompt; a batch holds the chosen of all pairs, then the rejected.

    Args:
        space: has the tokens.
        start: int64 (N, 2), first token of each row, chosen first.
        length: int32 (N, 2), its tokens.
        margin: float32 (N,).
        buckets: allowed row lengths T, ascending; a batch has the smallest that holds its pairs.
        pad_id: id that fills rows.
        report: what became of the records.
    """

    def __init__(
        self,
        space: TokenSpace,
        start: np.ndarray,
        length: np.ndarray,
        margin: np.ndarray,
        *,
        buckets: Sequence[int],
        pad_id: int,
        report: EncodeReport,
    ) -> None:
        self._space, self._start, self._length, self._margin = space, start, length, margin
        self._buckets, self._pad_id, self.report = tuple(buckets), pad_id, report
        self.row_tokens = length.sum(axis=1, dtype=np.int64)

    def take(self, indices: np.ndarray) -> Batch:
        """A batch of pairs of one bucket.

        Args:
            indices: int (B,).

        Returns:
            ``tokens, positions, segments`` int32 (2B, T), ``last`` int32 (2B,), ``margin`` float32 (B,).
        """
        start, length = self._start[indices].T.reshape(-1), self._length[indices].T.reshape(-1).astype(np.int64)
        width = _bucket(self._buckets, int(length.max()))
        within = ranges(np.zeros(len(length), np.int64), length)
        place = np.repeat(np.arange(len(length)) * width, length) + within
        batch = {
            "tokens": np.full((len(length), width), self._pad_id, np.int32),
            "positions": np.zeros((len(length), width), np.int32),
            "segments": np.zeros((len(length), width), np.int32),
            "last": (length - 1).astype(np.int32),
            "margin": self._margin[indices],
        }
        batch["tokens"].reshape(-1)[place] = self._space.tokens(np.repeat(start, length) + within)
        batch["positions"].reshape(-1)[place] = within
        batch["segments"].reshape(-1)[place] = 1
        self._space.note_reads(len(length), len(place))
        return batch

    @property
    def documents(self) -> list[Documents]:
        """The encoded answers the rows are made of, two documents a pair, of each data set."""
        return self._space.parts

    def origins(self, row: int) -> list[Origin]:
        """Where a pair comes from, the chosen answer and the rejected one.

        Args:
            row: its number.
        """
        return [Origin(*self._space.origin(int(start))) for start in self._start[row]]

    def answer_masks(self, row: int) -> list[np.ndarray]:
        """Which tokens of a pair are the answer: of the chosen one and of the rejected one.

        Args:
            row: its number.

        Returns:
            Two int32 (T,) of 0 and 1, without padding.
        """
        places = [start + np.arange(length) for start, length in zip(self._start[row], self._length[row], strict=True)]
        masks = [self._space.mask(place) for place in places]
        return [np.ones(len(p), np.int32) if m is None else m for p, m in zip(places, masks, strict=True)]

    def groups(self, batch_rows: int) -> list[np.ndarray]:
        """Pairs by bucket (see :func:`bucket_groups`).

        Args:
            batch_rows: pairs B of a batch.
        """
        return bucket_groups(self._length.max(axis=1), self._buckets, batch_rows)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The pairs of several data sets with one set of buckets, one set after the other.

        Args:
            parts: at least one.
        """
        space = TokenSpace([documents for part in parts for documents in part._space.parts])
        starts = np.cumsum([0, *(part._space.starts[-1] for part in parts)])
        length = np.concatenate([part._length for part in parts])
        first = parts[0]
        padding = 1.0 - float(length.sum()) / (length.size * first._buckets[-1])
        return cls(
            space,
            np.concatenate([part._start + start for part, start in zip(parts, starts[:-1], strict=True)]),
            length,
            np.concatenate([part._margin for part in parts]),
            buckets=first._buckets,
            pad_id=first._pad_id,
            report=EncodeReport.joined([part.report for part in parts], padding),
        )

    def blank(self, batch: Batch, padding: np.ndarray) -> None:
        """Empty the pairs that only fill a batch up.

        Args:
            batch: changed in place.
            padding: bool (B,), true for the pairs to empty.
        """
        both = np.concatenate([padding, padding])
        for name in ("positions", "segments", "last"):
            batch[name][both] = 0
        batch["margin"][padding] = 0.0


@dataclass(frozen=True)
class PromptRows(Rows):
    """Prompts, left-padded to the largest bucket; a batch is cut to the smallest bucket that holds its prompts.

    Attributes:
        tokens: int32 (N, last bucket), left-padded.
        row_tokens: int32 (N,), tokens of each prompt.
        report: what became of the records.
        buckets: allowed prompt lengths P, ascending.
        prompts: text of each prompt.
        answers: known answer of each prompt, or None.
        wheres: where each prompt comes from; empty when nobody knows.
    """

    tokens: np.ndarray
    row_tokens: np.ndarray
    report: EncodeReport
    buckets: tuple[int, ...]
    prompts: tuple[str, ...]
    answers: tuple[str | None, ...]
    wheres: tuple[str, ...] = ()

    def take(self, indices: np.ndarray) -> Batch:
        """A batch of prompts of one bucket.

        Args:
            indices: int (B,).

        Returns:
            ``tokens`` int32 (B, P) left-padded, ``lengths`` int32 (B,), ``index`` int32 (B,) into ``prompts``.
        """
        lengths = self.row_tokens[indices]
        bucket = _bucket(self.buckets, int(lengths.max()))
        tokens = self.tokens[indices, -bucket:]
        return {"tokens": tokens, "lengths": lengths, "index": indices.astype(np.int32)}

    def origins(self, row: int) -> list[Origin]:
        """Where a prompt comes from.

        Args:
            row: its number.
        """
        return [Origin(self.wheres[row] if self.wheres else "", 0)]

    def groups(self, batch_rows: int) -> list[np.ndarray]:
        """Prompts by bucket (see :func:`bucket_groups`).

        Args:
            batch_rows: rows B of a batch.
        """
        return bucket_groups(self.row_tokens, self.buckets, batch_rows)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The prompts of several data sets with one set of buckets, one set after the other.

        Args:
            parts: at least one.
        """
        tokens = np.concatenate([part.tokens for part in parts])
        lengths = np.concatenate([part.row_tokens for part in parts])
        return cls(
            tokens,
            lengths,
            EncodeReport.joined([part.report for part in parts], 1.0 - float(lengths.sum()) / tokens.size),
            parts[0].buckets,
            tuple(prompt for part in parts for prompt in part.prompts),
            tuple(answer for part in parts for answer in part.answers),
            tuple(where for part in parts for where in part.wheres),
        )

    def blank(self, batch: Batch, padding: np.ndarray) -> None:
        """Rows that fill a batch up stay ordinary prompts: they are answered and weigh nothing.

        Args:
            batch: left as it is.
            padding: bool (B,).
        """


def bucket_groups(lengths: np.ndarray, buckets: Sequence[int], batch_rows: int) -> list[np.ndarray]:
    """Rows by bucket, so that a short row is not padded for a long neighbour.

    A bucket with fewer rows than a batch joins its neighbour (the next larger one, the last the next smaller):
    otherwise one batch would hold the same row several times.

    Args:
        lengths: int (N,), longest side of each row in tokens.
        buckets: allowed lengths, ascending.
        batch_rows: rows B of a batch.

    Returns:
        Index arrays that together hold every row once.
    """
    owner = np.searchsorted(buckets, lengths)
    groups: list[np.ndarray] = []
    waiting = np.zeros(0, np.int64)
    for bucket in range(len(buckets)):
        waiting = np.union1d(waiting, np.flatnonzero(owner == bucket))
        if len(waiting) >= batch_rows:
            groups.append(waiting)
            waiting = np.zeros(0, np.int64)
    if len(waiting):
        groups.append(np.union1d(groups.pop(), waiting) if groups else waiting)
    return groups


def _bucket(buckets: Sequence[int], length: int) -> int:
    return buckets[int(np.searchsorted(buckets, length))]
