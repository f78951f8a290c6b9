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
# what the sums of shares may be off by after 1e8 rows
_EPSILON = 1e-6
# of a sum of tokens
_ROUNDING = 1e-9
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
        self._sums = np.zeros((1, len(parts)))  # sum of shares before each row; a view of what has room for more
        self._tokens = np.zeros(1)  # position of each row; likewise
        self._sums_buffer, self._tokens_buffer = self._sums, self._tokens
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
        enough = tokens * (1.0 - _ROUNDING)
        while self._tokens[-1] < enough and not self._ended:
            self._extend(len(self._sums) - 1 + _CHUNK)
        return min(int(np.searchsorted(self._tokens, enough)), len(self._sums) - 1)

    def reaches(self, rows: int, tokens: float) -> bool:
        """Whether the expected tokens of the first rows are an amount, up to the rounding of their sum.

        Args:
            rows: how many.
            tokens: the amount.
        """
        return self.expected_tokens(rows) >= tokens * (1.0 - _ROUNDING)

    def expected_tokens(self, rows: int | None = None) -> float:
        """Expected tokens of the first rows.

        Args:
            rows: how many; None: all that were worked out so far.
        """
        last = -1 if rows is None else self.num_rows(rows)  # which may work out more of them
        return float(self._tokens[last])

    def shares(self, row: int) -> np.ndarray:
        """Shares at a row, float64 (K,); at the last one when the plan ends before it.

        Args:
            row: number of the row, from 0.
        """
        last = self.num_rows(row + 1)
        return self._sums[last] - self._sums[last - 1] if last else np.zeros(len(self._parts))

    def _extend(self, num_rows: int) -> None:
        while len(self._sums) <= num_rows and not self._ended:
            shares, tokens, weightless = self._chunk()
            sums = _running_sums(self._sums[-1], shares)
            over = ((sums >= self._room - _EPSILON) & self._open).any(axis=1)
            if over.any():
                end = int(np.argmax(over))
                before = sums[end - 1] if end else self._sums[-1]
                last = self._last_share(before, shares[end])
                whole = bool(last.sum() > 1.0 - _EPSILON)  # else nobody takes over what is left of the row
                shares, tokens, sums = shares[: end + whole], tokens[: end + whole], sums[: end + whole]
                if whole:
                    shares[end], sums[end] = last, before + last
                    self._open &= sums[end] < self._room - _EPSILON
                self._ended = not whole
            else:
                self._ended = weightless
            self._append(sums, tokens + shares @ self._density)

    def _append(self, sums: np.ndarray, tokens: np.ndarray) -> None:
        count = len(self._sums)
        needed = count + len(sums)
        if needed > len(self._sums_buffer):  # doubled, so that a long plan is not copied for every chunk
            self._sums_buffer = np.concatenate([self._sums, np.empty((needed, sums.shape[1]))])
            self._tokens_buffer = np.concatenate([self._tokens, np.empty(needed)])
        self._sums_buffer[count:needed], self._tokens_buffer[count:needed] = sums, tokens
        self._sums, self._tokens = self._sums_buffer[:needed], self._tokens_buffer[:needed]

    def _chunk(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """Shares (n, K) of the next rows and their positions (n,) while no part is used up on the way.

        The flag says that behind them no part has a weight.
        """
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
        end = len(totals) if totals.all() else int(np.argmin(totals > 0))
        return shares[:end], tokens[:end], end < len(totals)

    def _last_share(self, before: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """The row in which parts are used up: they give what they still have, the others the rest of the row."""
        room = np.maximum(self._room - before, 0.0)
        given, rest, taking = np.zeros(len(shares)), 1.0, shares > 0
        while rest > _EPSILON and taking.any():  # each round gives away the rest, or finds a part that is used up
            given = np.minimum(given + np.where(taking, rest * shares / shares[taking].sum(), 0.0), room)
            rest = 1.0 - given.sum()
            taking &= room > given + _EPSILON
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
            # both bounds are 1/2: the rows of the first part are its rounded target. Where it is just below a half, a
            # share of 1 may be rounded to more: the row too many then comes later
            first, rows = np.floor(self._sums[start : stop + 1, 0] + 0.5 + _EPSILON), np.arange(stop - start + 1)
            first[0] = self._taken[0]
            first = np.minimum.accumulate(first - rows) + rows
            self._taken[0] = int(first[-1])
            return (1 - np.diff(first)).astype(np.int16)
        behind = self._sums[start + 1 : stop + 1].tolist()
        return np.asarray([self._choose(row, sums) for row, sums in enumerate(behind, start)], np.int16)

    def _choose(self, row: int, sums: list[float]) -> int:
        """Of the parts that may give this row, the one that must give its next one soonest."""
        bound = 1.0 / (2 * len(self._parts) - 2)
        taken, least = self._taken, bound - _EPSILON
        fitting = [part for part, wanted in enumerate(sums) if wanted - taken[part] >= least]
        best = fitting[0]
        if len(fitting) > 1:
            soonest = self._deadline(best, row, bound)
            for part in fitting[1:]:
                deadline = self._deadline(part, row, bound)
                if deadline < soonest:
                    best, soonest = part, deadline
        taken[best] += 1
        self._deadlines[best] = None
        return best

    def _deadline(self, part: int, row: int, bound: float) -> int:
        """First row, from ``row``, behind which a part may lack no more; at most ``_FARTHEST`` further."""
        known = self._deadlines[part]
        if known is not None:
            return known
        target = self._taken[part] + 1 - bound - _EPSILON
        first, behind = row + 1, row + 1 + _FARTHEST
        while self._sums[-1, part] < target and len(self._sums) < behind and not self._ended:
            self._extend(len(self._sums) - 1 + _CHUNK)
        # nothing behind the window counts, even if it was worked out: the sequence is the same whatever was asked
        found = int(self._sums[first:behind, part].searchsorted(target))
        if first + found >= min(behind, len(self._sums)):
            return row + _FARTHEST  # out of sight: looked for again at the next row
        self._deadlines[part] = row + found
        return row + found


def _running_sums(start: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """``start`` plus the steps so far, float64 (N, K), with what each addition rounds off added up beside it.

    The error of an addition: Knuth, "The Art of Computer Programming", volume 2, section 4.2.2, theorem B.
    """
    sums = np.cumsum(np.concatenate([start[None], steps]), axis=0)
    before, after = sums[:-1], sums[1:]
    added = after - before
    lost = (before - (after - added)) + (steps - added)
    return after + np.cumsum(lost, axis=0)
