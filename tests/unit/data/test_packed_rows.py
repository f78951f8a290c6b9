from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstack.data.packed_rows import PackedRows
from llmstack.data.rows import text_rows
from tests.helpers.rows import documents_of, everything, numbered_rows

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=40)
PACKINGS = st.sampled_from(["best_fit", "sequential", "none"])


def test_rows_by_hand() -> None:
    rows = text_rows(documents_of([3, 2, 5]), 6, 9)
    batch = everything(rows)
    assert {name: array.tolist() for name, array in batch.items()} == {
        "tokens": [[300, 301, 302, 303, 304, 9], [100, 101, 102, 200, 201, 9]],
        # the last token of a document has no label: its place holds its own id and does not count
        "labels": [[301, 302, 303, 304, 304, 9], [101, 102, 102, 201, 201, 9]],
        "loss_mask": [[1, 1, 1, 1, 0, 0], [1, 1, 0, 1, 0, 0]],
        "positions": [[0, 1, 2, 3, 4, 0], [0, 1, 2, 0, 1, 0]],
        "segments": [[1, 1, 1, 1, 1, 0], [1, 1, 1, 2, 2, 0]],
    }
    assert {name: array.dtype for name, array in batch.items()} == {
        **dict.fromkeys(("tokens", "labels", "positions", "segments"), np.int32),
        "loss_mask": np.float32,
    }
    assert (rows.row_tokens.tolist(), rows.row_targets.tolist()) == ([5, 5], [4, 3])


def test_blank_rows_have_no_segment_and_no_loss() -> None:
    rows = numbered_rows(2, 2)
    batch = everything(rows)
    rows.blank(batch, np.array([False, True]))
    for name in ("segments", "loss_mask"):
        assert batch[name].tolist() == [[1, 1], [0, 0]]
    assert batch["positions"].tolist() == [[0, 1], [0, 0]]


@settings(deadline=None)
@given(LENGTHS, st.integers(2, 12), PACKINGS)
def test_every_token_but_the_first_is_a_label_once_inside_its_document(lengths, seq_len, packing) -> None:
    rows = text_rows(documents_of(lengths), seq_len, 0, packing=packing, seed=7)
    batch = everything(rows)
    documents = [[number * 100 + place for place in range(length)] for number, length in enumerate(lengths, start=1)]
    real = batch["segments"] > 0
    # nothing lost, nothing invented
    assert sorted(batch["tokens"][real]) == sorted(token for ids in documents for token in ids)
    trained = batch["loss_mask"] == 1
    assert not (trained & ~real).any()
    # the label is the next token of the same document, never one further (t + 1, not t + 2)
    assert (batch["labels"][trained] == batch["tokens"][trained] + 1).all()
    assert sorted(batch["labels"][trained]) == sorted(token for ids in documents for token in ids[1:])
    starts = np.diff(batch["segments"], axis=1, prepend=0) != 0
    assert (batch["positions"][starts] == 0).all()
    inside = real & ~starts
    # segments never mix: inside one, tokens and positions go on by one
    assert (batch["positions"][inside] == batch["positions"][:, :-1][inside[:, 1:]] + 1).all()
    assert (batch["tokens"][:, 1:][inside[:, 1:]] == batch["tokens"][:, :-1][inside[:, 1:]] + 1).all()
    assert (real.sum(axis=1) == rows.row_tokens).all()
    assert (trained.sum(axis=1) == rows.row_targets).all()


@settings(deadline=None)
@given(LENGTHS, LENGTHS, st.integers(2, 12), st.data())
def test_joined_rows_are_the_rows_of_the_parts(first, second, seq_len, data) -> None:
    parts = [text_rows(documents_of(lengths), seq_len, 0) for lengths in (first, second)]
    joined = PackedRows.join(parts)
    whole = [everything(part) for part in parts]
    chosen = np.asarray(data.draw(st.lists(st.integers(0, len(joined) - 1), min_size=1, max_size=9)))
    batch = joined.take(chosen)
    for name, array in batch.items():
        assert (array == np.concatenate([part[name] for part in whole])[chosen]).all()
    assert joined.num_tokens == sum(first) + sum(second)
    assert joined.report.records == len(first) + len(second)
