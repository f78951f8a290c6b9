"""In which order rows are read: endless, seeded, and with a position of a few integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from llmstack.config.blend import BlendConfig, PartConfig
from llmstack.config.quantity import Quantity
from llmstack.data.blend import BlendPlan, Part, scheduled_weights
from llmstack.errors import DataError


class Order(Protocol):
    """An endless sequence of row numbers, read from the front."""

    part_names: tuple[str, ...]

    def take(self, count: int) -> np.ndarray:
        """The next ``count`` rows, int64 (count,)."""
        ...

    def locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Part and number within the part of each row."""
        ...

    def shares(self) -> list[float]:
        """The share of rows each part should have now."""
        ...

    def rows_for(self, budget: Quantity) -> int | None:
        """Rows of a budget; None when the size of the data alone decides."""
        ...

    def available(self, num_rows: int, budget: Quantity, *, least: int) -> int:
        """How many of the rows of a budget there are; refuses a budget that cannot be served."""
        ...

    def state(self) -> dict[str, Any]:
        """The position."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes to a position."""
        ...


class Stream:
    """The endless concatenation of one permutation an epoch of a set of rows, read by one cursor.

    Args:
        rows: int (N,), the set.
        seed: of the permutations, together with the number of the epoch.
        shuffle: False reads the rows in order.
    """

    def __init__(self, rows: np.ndarray, *, seed: tuple[int, ...], shuffle: bool = True) -> None:
        # half the memory, which counts for millions of rows; the order is the same
        self._rows, self._seed, self._shuffle = rows.astype(np.int32), seed, shuffle
        self._epoch, self._order = -1, self._rows
        self.cursor = 0

    def __len__(self) -> int:
        return len(self._rows)

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._shuffle and epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng((*self._seed, epoch)).permutation(self._rows)
        return self._order

    def take(self, count: int) -> np.ndarray:
        """The next rows; an epoch's end may lie among them.

        Args:
            count: how many.

        Returns:
            int64 (count,).
        """
        parts = [self._rows[:0]]
        while count:
            epoch, offset = divmod(self.cursor, len(self))
            part = self._permutation(epoch)[offset : offset + count]
            parts.append(part)
            self.cursor += len(part)
            count -= len(part)
        return np.concatenate(parts).astype(np.int64)


class PacedOrder:
    """One data set: no row is dropped or repeated within an epoch; what reaches an epoch's end goes on with the next.

    With several groups (the rows of a bucket each) all that is asked for at once comes from one group, the one that is
    the furthest behind, so that all are read at the same pace.

    Args:
        groups: int arrays that together hold every row once.
        seed: with group and epoch, of the permutations.
        shuffle: False reads the rows in order.
    """

    part_names: tuple[str, ...] = ("data",)

    def __init__(self, groups: Sequence[np.ndarray], *, seed: int, shuffle: bool = True) -> None:
        self._seed = seed
        self._streams = [Stream(rows, seed=(seed, number), shuffle=shuffle) for number, rows in enumerate(groups)]

    def take(self, count: int) -> np.ndarray:
        """The next rows.

        Args:
            count: how many.
        """
        # the ratios are compared as fractions: cursor / size, smallest first, ties to the earlier group
        behind = self._streams[0]
        for stream in self._streams[1:]:
            if stream.cursor * len(behind) < behind.cursor * len(stream):
                behind = stream
        return behind.take(count)

    def locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Part and number within the part of each row.

        Args:
            rows: int (N,).
        """
        return np.zeros(len(rows), np.int64), rows

    def shares(self) -> list[float]:
        """All rows are of the one part."""
        return [1.0]

    def rows_for(self, budget: Quantity) -> None:
        """The size of the data decides.

        Args:
            budget: any.
        """

    def available(self, num_rows: int, budget: Quantity, *, least: int) -> int:
        """Any number of rows can be served.

        Args:
            num_rows: how many.
            budget: why.
            least: rows of one step.
        """
        return num_rows

    def state(self) -> dict[str, Any]:
        """Seed, sizes and cursors."""
        return {**self._identity(), "cursors": [stream.cursor for stream in self._streams]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position.

        Args:
            state: what ``state()`` gave.

        Raises:
            DataError: it was taken from other data.
        """
        check_same(self._identity(), state)
        for stream, cursor in zip(self._streams, state["cursors"], strict=True):
            stream.cursor = int(cursor)

    def _identity(self) -> dict[str, Any]:
        return {"seed": self._seed, "rows": [len(stream) for stream in self._streams]}


class BlendedOrder:
    """Several data sets, the part of each row by :class:`~llmstack.data.blend.BlendPlan`, within a part as one set.

    Args:
        config: weights and bounds.
        sizes: rows of each part.
        tokens: real tokens of each part.
        seed: with part and epoch, of the permutations.
        path: dotted path of the option, for messages.

    Raises:
        DataError: a part's bounds leave it no row at all.
    """

    def __init__(
        self, config: BlendConfig, sizes: Sequence[int], tokens: Sequence[int], *, seed: int, path: str = "data"
    ) -> None:
        self.part_names = tuple(config.parts)
        self._seed, self._path, self._config = seed, path, config
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        bounds = [slice(a, b) for a, b in zip(self._starts[:-1], self._starts[1:], strict=True)]
        every = np.arange(self._starts[-1])
        self._streams = [Stream(every[part], seed=(seed, number)) for number, part in enumerate(bounds)]
        self._plan = BlendPlan(
            [
                self._part(name, part, size, count)
                for (name, part), size, count in zip(config.parts.items(), sizes, tokens, strict=True)
            ]
        )
        self._cursor = 0

    @property
    def plan(self) -> BlendPlan:
        """Which part each row comes from."""
        return self._plan

    def _part(self, name: str, config: PartConfig, size: int, tokens: int) -> Part:
        bound = _bound(config, size, tokens)
        if bound == 0:
            raise DataError(
                f"{self._path}.parts.{name}: expected max_epochs and max_tokens to leave at least one of its {size} "
                f"rows (of {tokens / size:.0f} tokens in the mean), got none. Raise them, or remove the part."
            )
        points = config.weight.points
        weights = scheduled_weights(config.weight.shape, [p.at.amount for p in points], [p.weight for p in points])
        return Part(weights, tokens / size, bound)

    def take(self, count: int) -> np.ndarray:
        """The next rows.

        Args:
            count: how many.

        Raises:
            DataError: the bounds of all parts are used up.
        """
        sequence = self._plan.sequence(self._cursor, self._cursor + count)
        if len(sequence) < count:
            raise DataError(self._used_up(self._cursor + count, "more rows"))
        self._cursor += count
        rows = np.empty(count, np.int64)
        for number, stream in enumerate(self._streams):
            mine = sequence == number
            rows[mine] = stream.take(int(mine.sum()))
        return rows

    def locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Part and number within the part of each row.

        Args:
            rows: int (N,).
        """
        part = np.searchsorted(self._starts, rows, side="right") - 1
        return part, rows - self._starts[part]

    def shares(self) -> list[float]:
        """The share of rows each part should have at the last row taken."""
        return [float(share) for share in self._plan.shares(max(self._cursor - 1, 0))]

    def rows_for(self, budget: Quantity) -> int:
        """Rows of a budget.

        Args:
            budget: tokens or steps; for steps the caller counts rows.
        """
        return self._plan.rows_for(budget.amount) if budget.unit == "tokens" else 0

    def available(self, num_rows: int, budget: Quantity, *, least: int) -> int:
        """Rows there are of a budget; the last step of one in tokens may not be whole.

        Args:
            num_rows: rows of whole steps.
            budget: why.
            least: rows of one step.

        Raises:
            DataError: the parts' bounds leave too few.
        """
        rows = self._plan.num_rows(num_rows)
        reached = self._plan.reaches(rows, budget.amount) if budget.unit == "tokens" else rows == num_rows
        if not reached or rows < least:
            raise DataError(self._used_up(num_rows, f"rows for a budget of {budget} in steps of {least}"))
        return rows

    def _used_up(self, num_rows: int, wanted: str) -> str:
        rows = self._plan.num_rows(num_rows)
        return (
            f"{self._path}.parts: expected {wanted}, got {rows} ({self._plan.expected_tokens(rows):.0f} tokens) before "
            "max_epochs and max_tokens are used up. Raise one of them, or shorten the budget."
        )

    def state(self) -> dict[str, Any]:
        """Seed, sizes, rows taken and the cursor of each part."""
        return {**self._identity(), "cursor": self._cursor, "cursors": [stream.cursor for stream in self._streams]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position.

        Args:
            state: what ``state()`` gave.

        Raises:
            DataError: it was taken from other data.
        """
        check_same(self._identity(), state)
        self._cursor = int(state["cursor"])
        for stream, cursor in zip(self._streams, state["cursors"], strict=True):
            stream.cursor = int(cursor)

    def _identity(self) -> dict[str, Any]:
        return {"seed": self._seed, "parts": list(self.part_names), "rows": np.diff(self._starts).tolist()}


def _bound(config: PartConfig, size: int, tokens: int) -> int | None:
    bounds = []
    if config.max_epochs is not None:  # as it was written: 0.29 epochs of 100 rows are 29, not 28.999999999999996
        bounds.append(int(Fraction(str(config.max_epochs)) * size))
    if config.max_tokens is not None:
        bounds.append(int(config.max_tokens.amount) * size // tokens)
    return min(bounds, default=None)


def check_same(expected: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Refuse a position that was taken from other data.

    Args:
        expected: seed and sizes now.
        state: a saved position.

    Raises:
        DataError: one of them differs.
    """
    wrong = [key for key, value in expected.items() if state.get(key) != value]
    if wrong:
        key = wrong[0]
        raise DataError(
            f"data: expected the {key} the checkpoint was written with ({state.get(key)}), got {expected[key]}. "
            "Restore the data or start with --fresh."
        )
