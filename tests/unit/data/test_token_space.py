from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstack.data.documents import Documents, Encoded, Losses, open_documents, write_documents
from llmstack.data.token_space import TokenSpace
from tests.helpers.rows import documents_of


def test_places_by_hand() -> None:
    space = TokenSpace([documents_of([2, 1]), documents_of([3], mask=[0, 1, 0])])
    assert (space.starts.tolist(), len(space.parts)) == ([0, 3, 6], 2)
    found = space.tokens(np.array([5, 0, 2, 3, 6, 99]))
    assert (found.tolist(), found.dtype) == ([102, 100, 200, 100, 102, 102], np.int32)
    mask = space.mask(np.array([5, 0, 2, 3, 4, 6]))
    assert mask is not None and mask.dtype == np.int32
    assert mask.tolist() == [0, 1, 1, 0, 1, 0]  # a set without a mask is trained everywhere


def test_one_set_alone() -> None:
    assert TokenSpace([documents_of([2])]).mask(np.array([0])) is None
    space = TokenSpace([documents_of([2, 2], mask=[0, 1, 1, 0])])
    assert space.tokens(np.array([3, 4, 0])).tolist() == [201, 201, 100]
    mask = space.mask(np.array([2, 3]))
    assert mask is not None and mask.tolist() == [1, 0]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 300), max_size=9), min_size=1, max_size=5).filter(lambda p: p[-1]), st.data())
def test_sets_are_read_as_one_after_the_other(parts, data) -> None:
    whole = [token for part in parts for token in part]
    sets = [Documents(np.asarray(part, np.uint16), np.array([0, len(part)])) for part in parts]
    index = np.asarray(data.draw(st.lists(st.integers(0, len(whole) + 2), max_size=20)), np.int64)
    wanted = [whole[min(place, len(whole) - 1)] for place in index]
    assert TokenSpace(sets).tokens(index).tolist() == wanted


def test_memory_of_files_is_given_back_once_much_was_read(tmp_path, monkeypatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_documents(tmp_path / name, [Encoded.of([[1, 2, 3]], None, ["x"], Losses(1))], 300)
    parts = [open_documents(tmp_path / name) for name in ("a", "b")]
    released = []
    for number, part in enumerate(parts):
        release = part.release
        monkeypatch.setattr(
            part, "release", lambda number=number, release=release: (released.append(number), release())
        )
    space = TokenSpace(parts)
    space.note_reads(8, 0)  # 8 stretches of 2 MiB
    space.note_reads(8, 0)
    assert released == []
    space.note_reads(1, 0)
    assert released == [0, 1]
    space.note_reads(0, 9 << 20)  # four bytes a token
    assert released == [0, 1] * 2
    assert space.tokens(np.array([0, 5])).tolist() == [1, 3]
