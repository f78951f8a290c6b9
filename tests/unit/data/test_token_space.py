from __future__ import annotations

import numpy as np
import pytest

from llmstack.data import token_space
from llmstack.data.documents import Documents
from llmstack.data.token_space import TokenSpace


def part(first: int, count: int, *, mask: bool = False) -> Documents:
    tokens = np.arange(first, first + count, dtype=np.uint16)
    return Documents(tokens, np.array([0, count]), mask=tokens.astype(np.uint8) % 2 if mask else None)


@pytest.mark.parametrize("sizes", [(6,), (2, 4), (1, 1, 4)])
def test_places_count_through_the_parts(sizes: tuple[int, ...]) -> None:
    starts = np.cumsum((0, *sizes))
    space = TokenSpace([part(10 + start, size) for start, size in zip(starts, sizes, strict=False)])
    places = np.array([5, 0, 3, 2, 1, 4, 0, 6, 9])
    found = space.tokens(places)
    # a place behind the last token gives the last one
    assert found.tolist() == [15, 10, 13, 12, 11, 14, 10, 15, 15] and found.dtype == np.int32
    assert space.starts.tolist() == list(starts) and len(space.parts) == len(sizes)


def test_a_part_without_a_mask_is_trained_everywhere() -> None:
    assert TokenSpace([part(0, 2), part(0, 2)]).mask(np.arange(4)) is None
    mixed = TokenSpace([part(0, 3, mask=True), part(0, 2)]).mask(np.arange(5))
    assert mixed is not None and mixed.tolist() == [0, 1, 0, 1, 1]


def test_memory_is_given_back_once_enough_was_read(monkeypatch) -> None:
    documents, calls = part(0, 4), []
    documents.release = lambda: calls.append(1)
    monkeypatch.setattr(token_space, "_RELEASE_BYTES", 3 * token_space._PAGES_BYTES)
    space = TokenSpace([documents])
    for _ in range(5):
        space.note_reads(runs=1, tokens=10)
    assert len(calls) == 1
