"""A row taken apart for people: its segments, what each token is for, where each comes from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmstack.data.answer_rows import AnswerRows
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.packed_rows import PackedRows
from llmstack.data.row_tables import Origin, Rows
from llmstack.errors import UserError


@dataclass(frozen=True)
class Segment:
    """A stretch of a row whose tokens see one another; T is its length.

    Attributes:
        name: what it is, e.g. ``segment 1`` or ``chosen``.
        number: its number in the batch's ``segments``.
        origin: where it comes from.
        places: int (T,), places in the row.
        positions: int (T,), as the model is told.
        tokens: int (T,), ids.
        marked: bool (T,), tokens that count: those the model learns to produce, or those of the answer of a pair.
        labels: int (T,), the id each place has to predict; None where none is predicted.
        trained: bool (T,), places whose label counts in the loss, or the place whose score is read.
        beyond: the label of the last place when it is trained; the token itself lies in another row.
        width: places of the row the segment lies in.
    """

    name: str
    number: int
    origin: Origin
    places: np.ndarray
    positions: np.ndarray
    tokens: np.ndarray
    marked: np.ndarray
    labels: np.ndarray | None
    trained: np.ndarray
    beyond: int | None
    width: int


def segments_of(rows: Rows, row: int) -> list[Segment]:
    """The segments of a row, as a batch with it alone has them.

    Args:
        rows: the rows of a data set.
        row: the number of one.

    Raises:
        UserError: rows of an own kind.
    """
    if isinstance(rows, PackedRows):
        return _packed(rows, row)
    if isinstance(rows, AnswerRows):
        return _answers(rows, row)
    if isinstance(rows, PromptRows):
        return _prompt(rows, row)
    raise UserError(f"data: expected rows of a built-in kind, got {type(rows).__name__}, which cannot be shown.")


def _packed(rows: PackedRows, row: int) -> list[Segment]:
    batch = {name: array[0] for name, array in rows.take(np.asarray([row])).items()}
    found = []
    for number, origin in enumerate(rows.origins(row), start=1):
        places = np.flatnonzero(batch["segments"] == number)
        trained = batch["loss_mask"][places] > 0
        labels = batch["labels"][places]
        found.append(
            Segment(
                f"segment {number}",
                number,
                origin,
                places,
                batch["positions"][places],
                batch["tokens"][places],
                marked=np.concatenate([[False], trained[:-1]]),
                labels=labels,
                trained=trained,
                beyond=int(labels[-1]) if trained[-1] else None,
                width=rows.seq_len,
            )
        )
    return found


def _answers(rows: AnswerRows, row: int) -> list[Segment]:
    batch = rows.take(np.asarray([row]))
    found = []
    for side, (name, mask) in enumerate(zip(rows.sides, rows.answer_masks(row), strict=True)):
        places = np.arange(len(mask))
        found.append(
            Segment(
                name,
                1,
                rows.origins(row)[side],
                places,
                batch["positions"][side, places],
                batch["tokens"][side, places],
                marked=mask > 0,
                labels=None,
                trained=places == batch["last"][side],
                beyond=None,
                width=batch["tokens"].shape[1],
            )
        )
    return found


def _prompt(rows: PromptRows, row: int) -> list[Segment]:
    tokens = rows.take(np.asarray([row]))["tokens"][0]
    positions = np.arange(int(rows.row_tokens[row]))
    places = positions + len(tokens) - len(positions)
    nothing = np.zeros(len(positions), bool)
    return [
        Segment(
            "prompt",
            1,
            rows.origins(row)[0],
            places,
            positions,
            tokens[places],
            marked=nothing,
            labels=None,
            trained=nothing,
            beyond=None,
            width=len(tokens),
        )
    ]
