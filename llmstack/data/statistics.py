"""Figures about rows: what was read, how long it is, how well it is packed, how a blend goes on over a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmstack.data.answer_rows import AnswerRows, PreferenceRows
from llmstack.data.blend import BlendPlan
from llmstack.data.documents import Documents
from llmstack.data.packed_rows import PackedRows
from llmstack.data.row_tables import Rows
from llmstack.data.rows import answer_lengths

MOMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of a budget at which a blend is looked at."""


@dataclass(frozen=True)
class Lengths:
    """How long things are, in tokens. A quantile is the smallest length that so many of them do not exceed.

    Attributes:
        count: how many things.
        min: the shortest; 0 when there is none, as all the others.
        median: half of them are at most so long.
        p90: 90 % of them are at most so long.
        p99: 99 % of them are at most so long.
        max: the longest.
        histogram: (shortest, longest, how many) of stretches, two to each doubling (8-11, 12-15, 16-23 ...), from the
            first that holds one to the last.
    """

    count: int
    min: int
    median: int
    p90: int
    p99: int
    max: int
    histogram: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class LeftOut:
    """Records left out for one reason.

    Attributes:
        count: how many.
        first: where the first of them comes from.
    """

    count: int
    first: str


@dataclass(frozen=True)
class Pairs:
    """The answers of preference pairs, without their prompts.

    Attributes:
        chosen: lengths of the better answers.
        rejected: lengths of the worse ones.
        chosen_longer_ratio: share of pairs whose better answer is the longer one.
        equal_ratio: share of pairs whose answers are of one length.
    """

    chosen: Lengths
    rejected: Lengths
    chosen_longer_ratio: float
    equal_ratio: float


@dataclass(frozen=True)
class RowStatistics:
    """Figures about one data set.

    Attributes:
        records: records read.
        kept: records in the rows.
        left_out: reason -> records left out.
        tokens: real tokens of all rows.
        rows: number of rows.
        filled_ratio: share of the rows' places that hold a token: the efficiency of the packing.
        cut: records that lost tokens to the row length, or were cut into pieces.
        cut_ratio: share of the kept records that were.
        trained_ratio: share of the tokens the model learns to produce; None where it learns no tokens.
        lengths: of encoded documents before they are cut; of both answers of a pair with their prompt; of prompts.
        pairs: the answers of preference pairs; None for other rows.
    """

    records: int
    kept: int
    left_out: dict[str, LeftOut]
    tokens: int
    rows: int
    filled_ratio: float
    cut: int
    cut_ratio: float
    trained_ratio: float | None
    lengths: Lengths
    pairs: Pairs | None


@dataclass(frozen=True)
class Moment:
    """A blend at one moment of a run.

    Attributes:
        budget_ratio: the moment, as a share of the run.
        rows: rows read before it.
        tokens: expected tokens read before it.
        shares: part -> share of the rows it gives at this moment.
        part_tokens: part -> expected tokens read of it before this moment.
    """

    budget_ratio: float
    rows: int
    tokens: int
    shares: dict[str, float]
    part_tokens: dict[str, int]


@dataclass(frozen=True)
class BlendStatistics:
    """The plan of a blend over a run.

    Attributes:
        moments: the blend at :data:`MOMENTS`.
        epochs: part -> passes over it until the end.
    """

    moments: tuple[Moment, ...]
    epochs: dict[str, float]


def lengths_of(lengths: np.ndarray) -> Lengths:
    """Figures about lengths.

    Args:
        lengths: int (N,).
    """
    if not len(lengths):
        return Lengths(0, 0, 0, 0, 0, 0, ())
    median, p90, p99 = (int(np.quantile(lengths, q, method="inverted_cdf")) for q in (0.5, 0.9, 0.99))
    shortest, longest = int(lengths.min()), int(lengths.max())
    starts = np.asarray(_stretches(longest))
    counts = np.bincount(np.searchsorted(starts, lengths, side="right") - 1)
    histogram = tuple(
        (int(starts[number]), int(starts[number + 1]) - 1, int(counts[number]))
        for number in range(int(np.flatnonzero(counts)[0]), len(counts))
    )
    return Lengths(len(lengths), shortest, median, p90, p99, longest, histogram)


def _stretches(longest: int) -> list[int]:
    """Where the stretches of a histogram start, and the end of the last: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 ..."""
    starts = [0, 1, 2, 3]
    while starts[-1] <= longest:
        starts.append(2 * starts[-2])
    return starts


def row_statistics(rows: Rows) -> RowStatistics:
    """Figures about one data set.

    Args:
        rows: its rows.
    """
    report, trained, lengths, pairs = rows.report, None, rows.row_tokens, None
    if isinstance(rows, PackedRows):
        trained = int(rows.row_targets.sum()) / max(rows.num_tokens, 1)
        lengths = _lengths(rows.documents)
    elif isinstance(rows, AnswerRows):
        lengths = _lengths(rows.documents)
        pairs = _pairs(rows.documents) if isinstance(rows, PreferenceRows) else None
    return RowStatistics(
        records=report.records,
        kept=report.kept,
        left_out={reason: LeftOut(count, report.examples[reason]) for reason, count in report.dropped.items()},
        tokens=rows.num_tokens,
        rows=len(rows),
        filled_ratio=1.0 - report.padding_ratio,
        cut=report.cut,
        cut_ratio=report.cut / max(report.kept, 1),
        trained_ratio=trained,
        lengths=lengths_of(lengths),
        pairs=pairs,
    )


def _lengths(documents: Sequence[Documents]) -> np.ndarray:
    return np.concatenate([part.lengths for part in documents])


def _pairs(documents: Sequence[Documents]) -> Pairs:
    chosen, rejected = np.concatenate([answer_lengths(part).reshape(-1, 2) for part in documents]).T
    count = max(len(chosen), 1)
    return Pairs(
        lengths_of(chosen),
        lengths_of(rejected),
        chosen_longer_ratio=int((chosen > rejected).sum()) / count,
        equal_ratio=int((chosen == rejected).sum()) / count,
    )


def moments_of(
    plan: BlendPlan, names: Sequence[str], tokens_per_row: Sequence[float], num_rows: int, ratios: Sequence[float]
) -> tuple[Moment, ...]:
    """A blend at some moments of a run.

    Args:
        plan: which part each row comes from.
        names: the parts.
        tokens_per_row: mean tokens in a row of each part.
        num_rows: rows of the whole run, which the plan must have.
        ratios: the moments, as shares of the run; the last one is that of the last row.
    """
    targets, density = plan.targets(num_rows), np.asarray(tokens_per_row)
    found = []
    for ratio in ratios:
        rows = round(ratio * num_rows)
        tokens = [round(value) for value in (targets[rows] * density).tolist()]
        shares = plan.shares(min(rows, num_rows - 1)).tolist()
        found.append(
            Moment(
                ratio,
                rows,
                round(plan.expected_tokens(rows)),
                dict(zip(names, shares, strict=True)),
                dict(zip(names, tokens, strict=True)),
            )
        )
    return tuple(found)


def blend_statistics(
    plan: BlendPlan, names: Sequence[str], sizes: Sequence[int], tokens: Sequence[int], num_rows: int
) -> BlendStatistics:
    """The plan of a blend over a run.

    Args:
        plan: which part each row comes from.
        names: the parts.
        sizes: rows of each part.
        tokens: real tokens of each part.
        num_rows: rows of the whole run, which the plan must have.
    """
    per_row = [count / size for count, size in zip(tokens, sizes, strict=True)]
    read = plan.targets(num_rows)[-1].tolist()
    return BlendStatistics(
        moments_of(plan, names, per_row, num_rows, MOMENTS),
        {name: rows / size for name, rows, size in zip(names, read, sizes, strict=True)},
    )
