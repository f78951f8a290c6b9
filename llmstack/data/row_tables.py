"""Encoded samples of one shape, and how a batch is taken from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class EncodeReport:
    """What became of the records.

    Attributes:
        records: how many there were.
        kept: how many are in the rows.
        cut: how many of these lost tokens to the row length.
        dropped: reason -> how many were left out.
        examples: reason -> where the first of them comes from.
        padding_ratio: share of the rows' places that hold no token.
    """

    records: int
    kept: int
    cut: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    padding_ratio: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        return asdict(self)


@dataclass(frozen=True)
class Rows:
    """Encoded samples of one shape.

    Attributes:
        arrays: name -> array whose first dimension counts the rows.
        num_tokens: real tokens in all rows.
        report: what became of the records.
    """

    arrays: dict[str, np.ndarray]
    num_tokens: int
    report: EncodeReport

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """A batch of the rows with these indices.

        Args:
            indices: int (B,).

        Returns:
            name -> array of B rows.
        """
        return {name: array[indices] for name, array in self.arrays.items()}

    def groups(self, batch_rows: int) -> list[np.ndarray]:
        """Which rows may share a batch.

        Args:
            batch_rows: rows B of a batch.

        Returns:
            Index arrays that together hold every row once.
        """
        return [np.arange(len(self))]

    def blank(self, batch: dict[str, np.ndarray], padding: np.ndarray) -> None:
        """Empty the rows of a batch that only fill it up.

        Args:
            batch: changed in place.
            padding: bool (B,), true for the rows to empty.
        """
        batch["loss_mask"][padding] = 0.0
        batch["segments"][padding] = 0
        batch["positions"][padding] = 0


class PreferenceRows(Rows):
    """Pairs: arrays (N, 2, T), chosen first; a batch holds the chosen of all pairs, then the rejected."""

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """A batch of pairs.

        Args:
            indices: int (B,).

        Returns:
            ``tokens, positions, segments`` int32 (2B, T), ``last`` int32 (2B,), ``margin`` float32 (B,).
        """
        batch = {"margin": self.arrays["margin"][indices]}
        for name in ("tokens", "positions", "segments", "last"):
            pairs = self.arrays[name][indices]
            batch[name] = np.concatenate([pairs[:, 0], pairs[:, 1]])
        return batch

    def blank(self, batch: dict[str, np.ndarray], padding: np.ndarray) -> None:
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
        buckets: allowed prompt lengths P, ascending.
        prompts: text of each prompt.
        answers: known answer of each prompt, or None.
    """

    buckets: tuple[int, ...]
    prompts: tuple[str, ...]
    answers: tuple[str | None, ...]

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """A batch of prompts of one bucket.

        Args:
            indices: int (B,).

        Returns:
            ``tokens`` int32 (B, P) left-padded, ``lengths`` int32 (B,), ``index`` int32 (B,) into ``prompts``.
        """
        lengths = self.arrays["lengths"][indices]
        bucket = self.buckets[int(np.searchsorted(self.buckets, lengths.max()))]
        tokens = self.arrays["tokens"][indices, -bucket:]
        return {"tokens": tokens, "lengths": lengths, "index": indices.astype(np.int32)}

    def groups(self, batch_rows: int) -> list[np.ndarray]:
        """Prompts by bucket, so that a short prompt is not padded for a long neighbour.

        A bucket with fewer prompts than a batch joins its neighbour (the next larger one, the last the next smaller):
        otherwise one batch would hold the same prompt several times.

        Args:
            batch_rows: rows B of a batch.

        Returns:
            Index arrays that together hold every prompt once.
        """
        owner = np.searchsorted(self.buckets, self.arrays["lengths"])
        groups: list[np.ndarray] = []
        waiting = np.zeros(0, np.int64)
        for bucket in range(len(self.buckets)):
            waiting = np.union1d(waiting, np.flatnonzero(owner == bucket))
            if len(waiting) >= batch_rows:
                groups.append(waiting)
                waiting = np.zeros(0, np.int64)
        if len(waiting):
            groups.append(np.union1d(groups.pop(), waiting) if groups else waiting)
        return groups

    def blank(self, batch: dict[str, np.ndarray], padding: np.ndarray) -> None:
        """Rows that fill a batch up stay ordinary prompts: they are answered and weigh nothing.

        Args:
            batch: left as it is.
            padding: bool (B,).
        """
