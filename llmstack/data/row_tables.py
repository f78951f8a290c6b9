"""Encoded samples of one shape, and how a batch is taken from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from typing_extensions import Self

Batch = dict[str, np.ndarray]


@dataclass(frozen=True)
class EncodeReport:
    """What became of the records.

    Attributes:
        records: how many there were.
        kept: how many are in the rows.
        cut: how many of these lost tokens to the row length, or were cut into pieces.
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

    @classmethod
    def joined(cls, parts: Sequence[EncodeReport], padding_ratio: float) -> EncodeReport:
        """The report of several data sets together.

        Args:
            parts: a report each.
            padding_ratio: of all rows.
        """
        dropped: dict[str, int] = {}
        examples: dict[str, str] = {}
        for part in parts:
            for reason, count in part.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
            examples = part.examples | examples
        records, kept, cut = (sum(getattr(part, name) for part in parts) for name in ("records", "kept", "cut"))
        return cls(records, kept, cut, dropped, examples, padding_ratio)


@dataclass(frozen=True)
class Origin:
    """Where a stretch of a row comes from.

    Attributes:
        where: the record, as ``file:line``.
        skipped: tokens of the record's document in front of the stretch.
    """

    where: str
    skipped: int


class Rows(ABC):
    """Encoded samples, of which batches are made.

    Attributes:
        report: what became of the records.
        row_tokens: int (N,), real tokens of each row.
    """

    report: EncodeReport
    row_tokens: np.ndarray

    def __len__(self) -> int:
        return len(self.row_tokens)

    @property
    def num_tokens(self) -> int:
        """Real tokens of all rows."""
        return int(self.row_tokens.sum())

    @abstractmethod
    def take(self, indices: np.ndarray) -> Batch:
        """A batch of the rows with these indices.

        Args:
            indices: int (B,).

        Returns:
            name -> array.
        """

    @classmethod
    @abstractmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The rows of several data sets, one set after the other.

        Args:
            parts: at least one.
        """

    @abstractmethod
    def origins(self, row: int) -> list[Origin]:
        """Where the tokens of a row come from, a place for each segment.

        Args:
            row: its number.
        """

    def groups(self, batch_rows: int) -> list[np.ndarray]:
        """Which rows may share a batch.

        Args:
            batch_rows: rows B of a batch.

        Returns:
            Index arrays that together hold every row once.
        """
        return [np.arange(len(self))]

    @abstractmethod
    def blank(self, batch: Batch, padding: np.ndarray) -> None:
        """Empty the rows of a batch that only fill it up.

        Args:
            batch: changed in place.
            padding: bool (B,), true for the rows to empty.
        """


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``starts[i], starts[i] + 1, ...`` (``counts[i]`` numbers) for each i, one after the other.

    Args:
        starts: int (N,).
        counts: int (N,).
    """
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
