"""From batches of answers to the inputs of the graphs that score them."""

from __future__ import annotations

import numpy as np

from llmstack.data.answer_rows import AnswerRows
from llmstack.data.row_tables import Batch, ranges


class AnswerInputs:
    """Turns a batch of answers into the inputs of a graph, whose number of targets is fixed for a row length.

    Args:
        rows: everything that will be served; its longest answers set the number of targets C of a batch.
        batch_rows: samples B of a batch.
        any_width: a batch may hold answers of any rows, whatever its own length.
    """

    def __init__(self, rows: AnswerRows, *, batch_rows: int, any_width: bool = False) -> None:
        self._num_targets = {}
        for width in rows.buckets:
            fitting = rows.row_answers if any_width else rows.row_answers[rows.widths <= width]
            longest = np.sort(fitting)[::-1]
            most = int(longest[np.arange(batch_rows) % len(longest)].sum()) if len(longest) else 0
            # a multiple of 64 keeps the head's matrix product on whole tiles
            self._num_targets[width] = min(-(-most // 64) * 64, batch_rows * len(rows.sides) * width)

    def __call__(self, batch: Batch) -> Batch:
        """Pick the positions that predict an answer's token.

        Args:
            batch: ``tokens, positions, segments`` (R, T), ``last, answer`` (R,).

        Returns:
            ``tokens, positions, segments`` (R, T) and ``targets, labels, rows`` (C,), in the graph's order.
        """
        num_rows, width = batch["tokens"].shape
        answer = batch["answer"].astype(np.int64)
        first = np.arange(num_rows) * width + batch["last"] - answer
        found = ranges(first, answer)
        count = self._num_targets[width]
        targets, rows = np.zeros(count, np.int32), np.full(count, num_rows, np.int32)
        targets[: len(found)] = found
        rows[: len(found)] = np.repeat(np.arange(num_rows), answer)
        labels = batch["tokens"].reshape(-1)[np.minimum(targets + 1, num_rows * width - 1)]
        inputs = {name: batch[name] for name in ("tokens", "positions", "segments")}
        return inputs | {"targets": targets, "labels": labels, "rows": rows}
