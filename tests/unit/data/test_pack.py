from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.data import pack as module
from llmstack.data.pack import Pieces, best_fit_decreasing, cut_documents, cut_stream, pack, truncate_documents
from tests.helpers.rows import documents_of

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=40)


def values(pieces: Pieces) -> list[tuple[int, int, bool, int]]:
    columns = (pieces.start, pieces.length, pieces.going_on, pieces.targets)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def members(packed: module.Packed) -> list[list[int]]:
    """Starts of the pieces of each row."""
    bounds, starts = packed.bounds.tolist(), packed.pieces.start.tolist()
    return [starts[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def test_documents_are_cut_without_losing_a_label_by_hand() -> None:
    # documents of 4 and 5 tokens in rows of 3: the piece that is cut has a label at its last place
    assert values(cut_documents(np.array([0, 4, 9]), 3)) == [
        (0, 3, True, 3),
        (3, 1, False, 0),
        (4, 3, True, 3),
        (7, 2, False, 1),
    ]
    assert values(cut_documents(np.array([0, 3]), 3)) == [(0, 3, False, 2)]


def test_stream_is_cut_where_a_row_is_full_by_hand() -> None:
    packed = cut_stream(np.array([0, 4, 9]), 3, np.array([1, 0]))
    # the second document first: its 5 tokens, then the 4 of the first
    assert values(packed.pieces) == [(4, 3, True, 3), (7, 2, False, 1), (0, 1, True, 1), (1, 3, False, 2)]
    assert packed.bounds.tolist() == [0, 1, 3, 4]


def test_truncated_documents_by_hand() -> None:
    mask = [0, 0, 1, 1, 0, 1, 1, 0]
    documents = documents_of([4, 4], mask=mask)
    assert values(truncate_documents(documents, 8)) == [(0, 4, False, 2), (4, 4, False, 2)]
    # cut behind two tokens: the trained ones of the first document are gone, of the second one is left
    assert values(truncate_documents(documents, 2)) == [(0, 2, False, 0), (4, 2, False, 1)]


def test_a_mask_larger_than_a_block_is_counted_in_blocks(monkeypatch) -> None:
    mask = np.random.default_rng(0).integers(0, 2, 60)
    documents = documents_of([7, 1, 20, 3, 29], mask=mask)
    whole = truncate_documents(documents, 16).targets
    monkeypatch.setattr(module, "_MASK_BLOCK", 4)
    assert truncate_documents(documents, 16).targets.tolist() == whole.tolist()
    assert whole.tolist() == [mask[1:7].sum(), 0, mask[9:24].sum(), mask[29:31].sum(), mask[32:47].sum()]


def test_best_fit_by_hand() -> None:
    # 5 opens a bin of 6 (1 left), 4 opens another (2 left); 2 fits the second best, 1 the first
    assert best_fit_decreasing([1, 4, 2, 5], 6) == [[3, 0], [1, 2]]
    assert best_fit_decreasing([3, 3, 3], 6) == [[0, 1], [2]]
    assert best_fit_decreasing([6, 6], 6) == [[0], [1]]


@pytest.mark.parametrize(
    ("packing", "rows"),
    [("best_fit", [[9, 0], [4]]), ("sequential", [[0], [4], [9]]), ("none", [[0], [4], [9]])],
)
def test_packings_by_hand(packing: str, rows: list[list[int]]) -> None:
    pieces = cut_documents(np.array([0, 4, 9, 11]), 6)
    found = members(pack(pieces, 6, packing, np.arange(3)))
    assert sorted(map(sorted, found)) == sorted(map(sorted, rows))


def test_sequential_keeps_the_order_and_starts_a_row_when_the_next_does_not_fit() -> None:
    pieces = cut_documents(np.array([0, 2, 4, 8, 9]), 5)
    assert members(pack(pieces, 5, "sequential", np.array([0, 1, 3, 2]))) == [[0, 2, 8], [4]]


def test_best_fit_looks_at_one_window_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(module, "_WINDOW", 2)
    pieces = cut_documents(np.array([0, 4, 8, 10, 12]), 6)
    assert members(pack(pieces, 6, "best_fit", np.arange(4))) == [[0], [4], [8, 10]]


def test_large_data_is_packed_once(monkeypatch) -> None:
    pieces = cut_documents(np.array([0, 4, 9, 11, 17, 21]), 7)
    small = members(pack(pieces, 7, "best_fit", np.arange(5)))
    monkeypatch.setattr(module, "_WORTH_KEEPING", 2)
    assert members(pack(pieces, 7, "best_fit", np.arange(5))) == small
    monkeypatch.setattr(module, "best_fit_decreasing", None)
    assert members(pack(pieces, 7, "best_fit", np.arange(5))) == small


@given(LENGTHS)
def test_bins_hold_every_item_once_and_never_overflow(lengths: list[int]) -> None:
    bins = best_fit_decreasing(lengths, 12)
    assert sorted(item for members in bins for item in members) == list(range(len(lengths)))
    sizes = [sum(lengths[item] for item in members) for members in bins]
    assert max(sizes) <= 12
    # at most one bin can be half empty: two such would have shared one
    assert sum(size <= 6 for size in sizes) <= 1


def test_ragged_conversations_fill_nearly_all_places() -> None:
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(5.0, 0.9, 4000).astype(int), 8, 2048)
    pieces = cut_documents(np.concatenate([[0], np.cumsum(lengths)]), 2048)
    rows = pack(pieces, 2048, "best_fit", np.arange(len(pieces)))
    assert lengths.sum() / ((len(rows.bounds) - 1) * 2048) > 0.99
