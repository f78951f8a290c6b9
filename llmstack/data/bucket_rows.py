"""Rows of one prompt each, padded to the smallest of a few lengths, and how rows are grouped by such lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from llmstack.data.row_tables import Batch, EncodeReport, Origin, Rows


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
        bucket = bucket_for(self.buckets, int(lengths.max()))
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


def bucket_for(buckets: Sequence[int], length: int) -> int:
    """The smallest allowed length that holds a row.

    Args:
        buckets: allowed lengths, ascending.
        length: tokens of the row, at most the last of them.
    """
    return buckets[int(np.searchsorted(buckets, length))]
