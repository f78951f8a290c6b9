"""Which of several parts each row of a blended corpus comes from.

Weights are shares of rows and may change with the tokens read so far. The sequence of parts is that of Tijdeman (1980),
"The chairman assignment problem", Discrete Mathematics 32: at every prefix the rows taken from a part differ from the
sum of its shares by at most 1 - 1/(2K - 2) of a row, K being the number of parts, whatever the shares do. It is a
function of the weights alone: no random number is drawn and no state is kept but the number of rows taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Weights = Callable[[np.ndarray], np.ndarray]
"""Token positions float64 (N,) -> weights float64 (N,), at least 0."""

_CHUNK = 1 << 14
_EPSILON = 1e-9
# a deadline further off than this is as good as none; without a limit a weight of 1e-9 would be followed for ever
_FARTHEST = 1 << 20


@dataclass(frozen=True)
class Part:
    """What the blend knows of one part.

    Attributes:
        weights: weight at each token position; shares are weights over their sum.
        tokens_per_row: mean number of real tokens in a row.
        max_rows: rows that may be taken from it; None sets no bound.
    """

    weights: Weights
    tokens_per_row: float
    max_rows: int | None = None


def scheduled_weights(shape: str, at_tokens: Sequence[float], weights: Sequence[float]) -> Weights:
    """A weight given at some points; before the first and behind the last it stays what it is there.

    Args:
        shape: between points: ``linear``, ``cosine`` (half a cosine wave, level at both ends) or ``steps`` (the weight
            of the point before).
        at_tokens: positions of the points, ascending.
        weights: weight at each.

    Returns:
        The function.
    """
    positions, values = np.asarray(at_tokens, np.float64), np.asarray(weights, np.float64)

    def weight(tokens: np.ndarray) -> np.ndarray:
        if shape == "steps":
            return values[np.maximum(np.searchsorted(positions, tokens, side="right") - 1, 0)]
        place = np.interp(tokens, positions, np.arange(len(positions), dtype=np.float64))
        before = np.floor(place)
        inside = place - before
        if shape == "cosine":
            inside = (1.0 - np.cos(np.pi * inside)) / 2.0
        first = before.astype(np.int64)
        second = np.minimum(first + 1, len(values) - 1)
        return values[first] * (1.0 - inside) + values[second] * inside

    return weight


class BlendPlan:
    """The parts of all rows of a blend, worked out as far as they are asked for.

    Row ``i`` is taken at the position ``t_i``, the tokens expected in the rows before it:
    ``t_{i+1} = t_i + sum_k share_k(t_i) * tokens_per_row_k``. A part whose ``max_rows`` are used up leaves the others
    its share. The plan ends when no part with a weight has rows left.

    Args:
        parts: at least one.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = list(parts)
        self._density = np.asarray([part.tokens_per_row for part in parts], np.float64)
        self._room = np.asarray([np.inf if p.max_rows is None else p.max_rows for p in parts], np.float64)
        self._open = self._room > 0
        self._sums = np.zeros((1, len(parts)))  # sum of shares before each row
        self._tokens = np.zeros(1)  # position of each row
        self._ended = False
        self._taken = [0] * len(parts)
        self._deadlines: list[int | None] = [None] * len(parts)
        self._sequence: list[np.ndarray] = []
        self._planned = 0

    # --- targets -------------------------------------------------------------------------------------------------

    def targets(self, num_rows: int) -> np.ndarray:
        """How many rows each part should have given at every prefix.

        Args:
            num_rows: N.

        Returns:
            float64 (M + 1, K), M the rows there are, at most N.
        """
        self._extend(num_rows)
        return self._sums[: num_rows + 1]

    def num_rows(self, at_most: int) -> int:
        """Rows the plan holds.

        Args:
            at_most: rows anybody will ask for.
        """
        self._extend(at_most)
        return min(len(self._sums) - 1, at_most)

    def rows_for(self, tokens: float) -> int:
        """Rows after which the expected tokens reach an amount; all there are when they never do.

        Args:
            tokens: the amount.
        """
        while self._tokens[-1] < tokens and not self._ended:
            self._extend(len(self._sums) - 1 + _CHUNK)
        return min(int(np.searchsorted(self._tokens, tokens)), len(self._sums) - 1)

    def expected_tokens(self, rows: int | None = None) -> float:
        """Expected tokens of the first rows.

        Args:
            rows: how many; None: all that were worked out so far.
        """
        return float(self._tokens[-1 if rows is None else self.num_rows(rows)])

    def shares(self, row: int) -> np.ndarray:
        """Shares at a row, float64 (K,); at the last one when the plan ends before it.

        Args:
            row: number of the row, from 0.
        """
        last = self.num_rows(row + 1)
        return self._sums[last] - self._sums[last - 1] if last else np.zeros(len(self._parts))

    def _extend(self, num_rows: int) -> None:
        while len(self._sums) <= num_rows and not self._ended:
            shares, tokens = self._chunk()
            sums = self._sums[-1] + np.cumsum(shares, axis=0)
            end, used_up = self._first_use_up(sums)
            if used_up is not None:
                shares, tokens, sums = shares[: end + 1], tokens[: end + 1], sums[: end + 1]
                shares[end] = self._last_share(sums[end - 1] if end else self._sums[-1], shares[end])
                if shares[end].sum() < 1.0 - _EPSILON:  # nobody takes over what is left of the row
                    shares, tokens, sums = shares[:end], tokens[:end], sums[:end]
                    self._ended = True
                else:
                    sums[end] = (sums[end - 1] if end else self._sums[-1]) + shares[end]
                self._open &= ~used_up
            if len(shares):
                after = tokens + shares @ self._density
                self._sums = np.concatenate([self._sums, sums])
                self._tokens = np.concatenate([self._tokens, after])

    def _chunk(self) -> tuple[np.ndarray, np.ndarray]:
        """Shares (n, K) of the next rows and their positions (n,), as long as no part is used up on the way."""
        start = self._tokens[-1]
        tokens = np.full(_CHUNK, start)
        while True:  # each round makes at least one more position exact, in practice nearly all of them
            weights = np.stack([part.weights(tokens) for part in self._parts], axis=1) * self._open
            totals = weights.sum(axis=1)
            shares = weights / np.where(totals > 0, totals, 1.0)[:, None]
            follow = np.cumsum(np.concatenate([[start], shares[:-1] @ self._density]))
            if np.array_equal(follow, tokens):
                break
            tokens = follow
        if not totals.all():
            self._ended = True
            end = int(np.argmin(totals > 0))
            return shares[:end], tokens[:end]
        return shares, tokens

    def _first_use_up(self, sums: np.ndarray) -> tuple[int, np.ndarray | None]:
        over = (sums >= self._room - _EPSILON) & self._open
        if not over.any():
            return len(sums), None
        end = int(np.argmax(over.any(axis=1)))
        return end, over[end]

    def _last_share(self, before: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """The row in which parts are used up: they give what they still have, the others the rest of the row."""
        room = np.maximum(self._room - before, 0.0)
        given = np.minimum(shares, room)
        others = (room > given + _EPSILON) & (shares > 0)
        rest = 1.0 - given.sum()
        if others.any():
            given[others] += rest * shares[others] / shares[others].sum()
        return given

    # --- sequence ------------------------------------------------------------------------------------------------

    def sequence(self, start: int, stop: int) -> np.ndarray:
        """The part of each row.

        Args:
            start: first row.
            stop: behind the last row.

        Returns:
            int16 (stop - start,); shorter when the plan ends before.
        """
        while self._planned < stop:
            number = min(max(stop - self._planned, _CHUNK), self.num_rows(self._planned + _CHUNK) - self._planned)
            if number <= 0:
                break
            self._sequence.append(self._next(self._planned, self._planned + number))
            self._planned += number
        if len(self._sequence) > 1:
            self._sequence = [np.concatenate(self._sequence)]
        return self._sequence[0][start:stop] if self._sequence else np.zeros(0, np.int16)

    def _next(self, start: int, stop: int) -> np.ndarray:
        if len(self._parts) == 1:
            return np.zeros(stop - start, np.int16)
        if len(self._parts) == 2:
            # both bounds are 1/2: the rows of the first part are its rounded target
            first = np.floor(self._sums[start : stop + 1, 0] + 0.5)
            return (1 - np.diff(first)).astype(np.int16)
        return np.asarray([self._choose(row) for row in range(start, stop)], np.int16)

    def _choose(self, row: int) -> int:
        """Of the parts that may give this row, the one that must give its next one soonest."""
        bound = 1.0 / (2 * len(self._parts) - 2)
        behind = (self._sums[row + 1] - self._taken).tolist()
        best, soonest = -1, 0
        for part, lack in enumerate(behind):
            if lack < bound - _EPSILON:
                continue
            deadline = self._deadlines[part]
            if deadline is None:
                deadline = self._deadlines[part] = self._deadline(part, row, self._taken[part] + 1 - bound)
            if best < 0 or deadline < soonest:
                best, soonest = part, deadline
        self._taken[best] += 1
        self._deadlines[best] = None
        return best

    def _deadline(self, part: int, row: int, target: float) -> int:
        """First row, from ``row``, behind which the part's target reaches ``target``."""
        while self._sums[-1, part] < target - _EPSILON and len(self._sums) - row <= _FARTHEST and not self._ended:
            self._extend(len(self._sums) - 1 + _CHUNK)
        return row + int(np.searchsorted(self._sums[row + 1 :, part], target - _EPSILON))
