from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstack.data.pack import Piece, best_fit_decreasing, document_pieces, masked_piece, pack_rows

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=40)


def values(piece: Piece) -> tuple[list[int], list[int], list[float]]:
    return piece.tokens.tolist(), piece.labels.tolist(), piece.loss_mask.tolist()


def test_document_that_fits_by_hand() -> None:
    (piece,) = document_pieces([5, 6, 7, 0], 8)
    assert values(piece) == ([5, 6, 7, 0], [6, 7, 0, 0], [1, 1, 1, 0])


def test_document_that_is_cut_by_hand() -> None:
    first, second = document_pieces([5, 6, 7, 8, 0], 3)
    assert values(first) == ([5, 6, 7], [6, 7, 8], [1, 1, 1])
    assert values(second) == ([8, 0], [0, 0], [1, 0])


def test_masked_piece_by_hand() -> None:
    assert values(masked_piece([5, 6, 7, 8], [0, 0, 1, 1], 8)) == ([5, 6, 7, 8], [6, 7, 8, 8], [0, 1, 1, 0])
    # cut behind 6: the label 7 is not in the row any more, so nothing is trained
    assert values(masked_piece([5, 6, 7, 8], [0, 0, 1, 1], 2)) == ([5, 6], [6, 6], [0, 0])


def test_best_fit_by_hand() -> None:
    # 5 opens a bin of 6 (1 left), 4 opens another (2 left); 2 fits the second best, 1 the first
    assert best_fit_decreasing([1, 4, 2, 5], 6) == [[3, 0], [1, 2]]
    assert best_fit_decreasing([3, 3, 3], 6) == [[0, 1], [2]]
    assert best_fit_decreasing([6, 6], 6) == [[0], [1]]


def test_rows_by_hand() -> None:
    pieces = document_pieces([5, 6, 0], 6) + document_pieces([7, 0], 6) + document_pieces([1, 2, 3, 4, 0], 6)
    rows = pack_rows(pieces, 6, pad_id=9)
    assert rows["tokens"].tolist() == [[1, 2, 3, 4, 0, 9], [5, 6, 0, 7, 0, 9]]
    assert rows["labels"].tolist() == [[2, 3, 4, 0, 0, 9], [6, 0, 0, 0, 0, 9]]
    assert rows["loss_mask"].tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 0, 1, 0, 0]]
    assert rows["positions"].tolist() == [[0, 1, 2, 3, 4, 0], [0, 1, 2, 0, 1, 0]]
    assert rows["segments"].tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 2, 2, 0]]
    assert {name: rows[name].dtype for name in rows} == {
        "tokens": np.int32,
        "labels": np.int32,
        "positions": np.int32,
        "segments": np.int32,
        "loss_mask": np.float32,
    }


@given(LENGTHS)
def test_bins_hold_every_item_once_and_never_overflow(lengths: list[int]) -> None:
    bins = best_fit_decreasing(lengths, 12)
    assert sorted(item for members in bins for item in members) == list(range(len(lengths)))
    sizes = [sum(lengths[item] for item in members) for members in bins]
    assert max(sizes) <= 12
    # at most one bin can be half empty: two such would have shared one
    assert sum(size <= 6 for size in sizes) <= 1


@settings(deadline=None)
@given(LENGTHS, st.integers(2, 12))
def test_every_token_but_the_first_is_a_label_once_inside_its_document(lengths: list[int], seq_len: int) -> None:
    # token id = document * 100 + place, so that every pair tells where it comes from
    documents = [[number * 100 + place for place in range(length)] for number, length in enumerate(lengths, start=1)]
    rows = pack_rows([piece for ids in documents for piece in document_pieces(ids, seq_len)], seq_len, pad_id=0)
    real = rows["segments"] > 0
    assert sorted(rows["tokens"][real]) == sorted(token for ids in documents for token in ids)
    trained = rows["loss_mask"] == 1
    assert not (trained & ~real).any()
    assert (rows["labels"][trained] == rows["tokens"][trained] + 1).all()
    assert sorted(rows["labels"][trained]) == sorted(token for ids in documents for token in ids[1:])
    starts = np.diff(rows["segments"], axis=1, prepend=0) != 0
    assert (rows["positions"][starts] == 0).all()
    inside = real & ~starts
    assert (rows["positions"][inside] == rows["positions"][:, :-1][inside[:, 1:]] + 1).all()
    assert (rows["tokens"][:, 1:][inside[:, 1:]] == rows["tokens"][:, :-1][inside[:, 1:]] + 1).all()
