"""Batches in a seeded endless order whose position is a few integers, and batches in fixed order for evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from llmstack.data.row_tables import Rows
from llmstack.errors import DataError

Batch = dict[str, np.ndarray]


class _Stream:
    """The endless concatenation of one permutation an epoch of a set of rows, read by one cursor."""

    def __init__(self, rows: np.ndarray, *, seed: tuple[int, ...], shuffle: bool) -> None:
        self._rows, self._seed, self._shuffle = rows, seed, shuffle
        self._epoch, self._order = -1, rows
        self.cursor = 0

    def __len__(self) -> int:
        return len(self._rows)

    def _permutation(self, epoch: int) -> np.ndarray:
        if self._shuffle and epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng((*self._seed, epoch)).permutation(self._rows)
        return self._order

    def take(self, count: int) -> np.ndarray:
        """The next ``count`` rows; an epoch's end may lie among them."""
        parts = []
        while count:
            epoch, offset = divmod(self.cursor, len(self))
            part = self._permutation(epoch)[offset : offset + count]
            parts.append(part)
            self.cursor += len(part)
            count -= len(part)
        return np.concatenate(parts)


class Loader:
    """Training batches.

    The rows of each group (one group, or the prompts of one bucket) are read in the endless concatenation of
    per-epoch permutations seeded by (seed, group, epoch). No row is dropped or repeated within an epoch: a batch that
    reaches an epoch's end goes on with the next. With several groups the next batch comes from the one that is the
    furthest behind, so that all are read at the same pace.

    Args:
        rows: what to serve.
        batch_rows: rows B of a batch (pairs for preference rows).
        seed: seed of the order.
        shuffle: False reads the rows in order.

    Attributes:
        sample_ids: int (B,), the rows of the last batch; empty before the first.
    """

    def __init__(self, rows: Rows, *, batch_rows: int, seed: int, shuffle: bool = True) -> None:
        self._all, self._batch_rows, self._seed = rows, batch_rows, seed
        self._streams = [
            _Stream(group, seed=(seed, number), shuffle=shuffle) for number, group in enumerate(rows.groups(batch_rows))
        ]
        self.sample_ids = np.zeros(0, np.int64)

    @property
    def rows(self) -> Rows:
        """Everything that is served."""
        return self._all

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
        return -(-len(self._all) // (self._batch_rows * accumulate))

    def next(self) -> Batch:
        """The next batch.

        Returns:
            name -> array; always the same names and, within a bucket, shapes.
        """
        # the ratios are compared as fractions: cursor / size, smallest first, ties to the earlier group
        behind = self._streams[0]
        for stream in self._streams[1:]:
            if stream.cursor * len(behind) < behind.cursor * len(stream):
                behind = stream
        self.sample_ids = behind.take(self._batch_rows)
        return self._all.take(self.sample_ids)

    def state(self) -> dict[str, Any]:
        """The position, as JSON-able values."""
        return {
            "seed": self._seed,
            "rows": [len(stream) for stream in self._streams],
            "cursors": [stream.cursor for stream in self._streams],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was taken.

        Args:
            state: what ``state()`` gave.

        Raises:
            DataError: it was taken from other data or with another seed.
        """
        mine = self.state()
        if any(state.get(key) != mine[key] for key in ("seed", "rows")):
            raise DataError(
                f"data: expected the seed and rows the checkpoint was written with ({state.get('seed')}, "
                f"{state.get('rows')}), got ({mine['seed']}, {mine['rows']}). Restore the data or start with --fresh."
            )
        for stream, cursor in zip(self._streams, state["cursors"], strict=True):
            stream.cursor = int(cursor)


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
