"""Batches in a seeded endless order whose position is a few integers, and batches in fixed order for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from llmstack.config.quantity import Quantity
from llmstack.data.orders import Order, PacedOrder
from llmstack.data.row_tables import Batch, Rows


@dataclass(frozen=True)
class Drawn:
    """What was served since the last time somebody asked.

    Attributes:
        rows: part -> numbers of the rows, in order; one part named ``data`` unless the corpus is a blend.
        metrics: of a blend, ``data/<part>/share``: share of the real tokens that came from the part.
        gauges: of a blend, for each part ``data/<part>/tokens``, the real tokens served so far, and
            ``data/<part>/weight``, the share of rows it should have now.
    """

    rows: dict[str, list[int]]
    metrics: dict[str, float]
    gauges: dict[str, float]


class Loader:
    """Training batches.

    The order of the rows depends on data, seed and blend alone. Each of ``world`` ranks gets its own stretch of every
    global batch, so that ranks never share a row and any number of them reads the same rows in the same order.

    Args:
        rows: what to serve.
        batch_rows: rows B of a batch of one rank (pairs for preference rows).
        order: in which order; None: shuffled anew each epoch, seeded by ``seed``.
        seed: seed of that order.
        rank: this process.
        world: number of processes.

    Attributes:
        sample_ids: int (B,), the rows of the last batch; empty before the first.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        batch_rows: int,
        order: Order | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self._all, self._batch_rows = rows, batch_rows
        self._order = order or PacedOrder(rows.groups(batch_rows * world), seed=seed)
        self._rank, self._world = rank, world
        self._names = self._order.part_names
        self._served = dict.fromkeys(self._names, 0)
        self._drawn: list[np.ndarray] = []
        self.sample_ids = np.zeros(0, np.int64)
        self._mark = self.state()

    @property
    def rows(self) -> Rows:
        """Everything that is served."""
        return self._all

    @property
    def order(self) -> Order:
        """The order of the rows; taking from it moves the loader."""
        return self._order

    @property
    def num_tokens(self) -> int:
        """Real tokens of one epoch."""
        return self._all.num_tokens

    def steps_per_epoch(self, accumulate: int = 1) -> int:
        """Optimizer steps after which every row has been served at least once.

        Args:
            accumulate: batches of one optimizer step.

        Returns:
            Rows divided by rows of a step, rounded up.
        """
        return -(-len(self._all) // (self._batch_rows * self._world * accumulate))

    def steps(self, budget: Quantity, accumulate: int = 1) -> int:
        """Optimizer steps of a budget.

        Args:
            budget: tokens, steps or epochs.
            accumulate: batches of one optimizer step.

        Raises:
            DataError: the parts of a blend have bounds, and together hold less.
        """
        per_step = self._batch_rows * self._world * accumulate
        rows = self._order.rows_for(budget)
        if rows is None:
            return budget.steps(self.steps_per_epoch(accumulate), self.num_tokens)
        steps = int(budget.amount) if budget.unit == "steps" else -(-rows // per_step)
        return self._order.available(steps * per_step, budget, least=per_step) // per_step

    def next(self) -> Batch:
        """The next batch of this rank.

        Returns:
            name -> array; always the same names and, within a bucket, shapes.
        """
        everybody = self._order.take(self._batch_rows * self._world)
        self._drawn.append(everybody)
        owner, _ = self._order.locate(everybody)
        for name, tokens in zip(self._names, self._tokens_by_part(owner, everybody), strict=True):
            self._served[name] += tokens
        self.sample_ids = everybody[self._rank * self._batch_rows : (self._rank + 1) * self._batch_rows]
        return self._all.take(self.sample_ids)

    def _tokens_by_part(self, owner: np.ndarray, rows: np.ndarray) -> list[int]:
        counts = np.bincount(owner, self._all.row_tokens[rows], minlength=len(self._names))
        return [int(count) for count in counts]

    def drain(self) -> Drawn:
        """What all ranks were served since the last call."""
        ids = np.concatenate([np.zeros(0, np.int64), *self._drawn])
        self._drawn = []
        owner, local = self._order.locate(ids)
        by_part = {name: owner == number for number, name in enumerate(self._names)}
        rows = {name: local[mine].tolist() for name, mine in by_part.items() if mine.any()}
        if len(self._names) == 1:
            self._mark = self.state()
            return Drawn(rows, {}, {})
        counts = self._tokens_by_part(owner, ids)
        total, metrics, gauges = max(sum(counts), 1), {}, {}
        for name, count, weight in zip(self._names, counts, self._order.shares(), strict=True):
            metrics[f"data/{name}/share"] = count / total
            gauges[f"data/{name}/tokens"] = float(self._served[name])
            gauges[f"data/{name}/weight"] = weight
        self._mark = self.state()
        return Drawn(rows, metrics, gauges)

    def state(self) -> dict[str, Any]:
        """The position, as JSON-able values; it does not depend on the rows of a batch or the number of ranks."""
        return {**self._order.state(), "served_tokens": dict(self._served)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken, also with another batch size or number of ranks.

        Args:
            state: what ``state()`` gave.

        Raises:
            DataError: it was taken from other data or with another seed.
        """
        self._order.restore(state)
        self._served = {name: int(state["served_tokens"][name]) for name in self._names}
        self._drawn = []
        self._mark = self.state()

    def rewind(self) -> None:
        """Take back what was served since the last ``drain``: it will be served again."""
        self.restore(self._mark)


class EvalBatches:
    """Every row once, in order; the last batch is filled up with emptied rows of weight 0.

    Args:
        rows: what to serve.
        batch_rows: rows B of a batch.
        limit: serve at most this many batches; None serves all.
    """

    def __init__(self, rows: Rows, *, batch_rows: int, limit: int | None = None) -> None:
        self._rows, self._batch_rows = rows, batch_rows
        full = -(-len(rows) // batch_rows)
        self._num_batches = full if limit is None else min(limit, full)

    def __len__(self) -> int:
        return self._num_batches

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches with one array more: ``weight`` float32 (B,), 0 for rows that only fill the batch up."""
        for number in range(self._num_batches):
            wanted = np.arange(number * self._batch_rows, (number + 1) * self._batch_rows)
            padding = wanted >= len(self._rows)
            batch = self._rows.take(np.where(padding, 0, wanted))
            if padding.any():
                self._rows.blank(batch, padding)
            batch["weight"] = (~padding).astype(np.float32)
            yield batch
