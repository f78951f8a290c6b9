from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstack.data.documents import Documents, Encoded, Losses, open_documents, write_documents
from llmstack.errors import DataError

NAMES = ["a.txt:1", "über/名前.txt:2", os.fsdecode(b"caf\xe9.txt:3"), "half \ud83d", "", "x" * 300]


def encoded(kind: str, number: int, *, documents: int = 4) -> Encoded:
    """A chunk as an encoder gives it; each number makes another one."""
    rng = np.random.default_rng(number)
    lengths = rng.integers(1, 6, documents)
    ids = [rng.integers(0, 300, length).tolist() for length in lengths]
    masks = None if kind == "text" else [rng.integers(0, 2, length).tolist() for length in lengths]
    margins = rng.random(documents // 2).tolist() if kind == "pairs" else ()
    wheres = [NAMES[(number + place) % len(NAMES)] for place in range(documents)]
    losses = Losses(documents + number, {"empty": number}, {"empty": f"first \udce9 {number}"}) if number else Losses(4)
    return Encoded.of(ids, masks, wheres, losses, margins)


def written(folder, chunks, vocab_size: int = 300) -> Documents:
    folder.mkdir()
    write_documents(folder, iter(chunks), vocab_size)
    return open_documents(folder)


def assert_same(found: Documents, wanted: Documents) -> None:
    assert np.array_equal(found.tokens, wanted.tokens)
    assert found.bounds.tolist() == wanted.bounds.tolist()
    assert (found.mask is None) == (wanted.mask is None)
    assert wanted.mask is None or np.array_equal(found.mask, wanted.mask)
    assert [found.where(number) for number in range(len(found))] == list(wanted.wheres)
    assert found.margins.dtype == wanted.margins.dtype == np.float32
    assert found.margins.tolist() == wanted.margins.tolist()
    assert found.losses == wanted.losses


@pytest.mark.parametrize("kind", ["text", "chat", "pairs"])
def test_written_documents_are_those_in_memory(kind, tmp_path) -> None:
    chunks = [encoded(kind, number) for number in range(6)]
    memory, files = Documents.of(chunks), written(tmp_path / "x", chunks)
    assert_same(files, memory)
    assert len(files) == 24 and files.lengths.tolist() == np.concatenate([c.lengths for c in chunks]).tolist()
    files.release()
    assert_same(files, memory)
    assert {files.where(number) for number in range(24)} == set(NAMES)


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_499, np.uint16), (65_500, np.int32), (200_000, np.int32)])
def test_ids_are_stored_as_small_as_the_vocabulary_allows(vocab_size, dtype, tmp_path) -> None:
    largest = vocab_size - 1
    chunk = Encoded.of([[0, largest], [largest]], None, ["a", "b"], Losses(2))
    files = written(tmp_path / "x", [chunk], vocab_size)
    assert files.tokens.dtype == dtype
    assert files.tokens.astype(np.int64).tolist() == [0, largest, largest]


def test_documents_by_hand() -> None:
    chunks = [
        Encoded.of([[1, 2], [3]], [[0, 1], [1]], ["a", "b"], Losses(3, {"empty": 1}, {"empty": "c"}), [0.5]),
        Encoded.of([[4, 5, 6], [7]], [[0, 0, 1], [1]], ["d", "e"], Losses(2), [1.5]),
    ]
    documents = Documents.of(chunks)
    assert (documents.tokens.tolist(), documents.tokens.dtype) == ([1, 2, 3, 4, 5, 6, 7], np.int32)
    assert (documents.bounds.tolist(), documents.bounds.dtype) == ([0, 2, 3, 6, 7], np.int64)
    assert documents.mask is not None
    assert (documents.mask.tolist(), documents.mask.dtype) == ([0, 1, 1, 0, 0, 1, 1], np.uint8)
    assert (documents.margins.tolist(), documents.lengths.tolist()) == ([0.5, 1.5], [2, 1, 3, 1])
    assert documents.losses == Losses(5, {"empty": 1}, {"empty": "c"})


def test_documents_without_names_are_numbered() -> None:
    documents = Documents(np.arange(3), np.array([0, 1, 3]))
    assert (documents.where(1), documents.losses.records, documents.margins.tolist()) == ("document 1", 2, [])
    documents.release()


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=3), st.integers(1, 4)), max_size=4), max_size=5
    )
)
def test_losses_add_up_and_keep_the_first_example(parts) -> None:
    joined, first, total = Losses(), {}, {}
    for part in parts:
        losses = Losses(records=len(part))
        for reason, where, count in part:
            losses.add(reason, where, count)
            first.setdefault(reason, where)
            total[reason] = total.get(reason, 0) + count
        joined.join(losses)
    assert joined == Losses(sum(map(len, parts)), total, first)


def test_no_chunk_is_no_document(tmp_path) -> None:
    files = written(tmp_path / "x", [])
    assert (len(files), files.losses, files.mask, files.margins.tolist()) == (0, Losses(), None, [])


def test_a_chunk_that_kept_nothing_leaves_its_losses(tmp_path) -> None:
    nothing = Encoded.of([], [], [], Losses(2, {"equal_answers": 2}, {"equal_answers": "a"}))
    some = encoded("pairs", 1)
    assert_same(written(tmp_path / "x", [nothing, some, nothing]), Documents.of([nothing, some, nothing]))


@pytest.mark.parametrize("name", ["tokens.bin", "tokens.idx", "mask.bin", "where.idx"])
def test_a_damaged_file_is_named(name, tmp_path) -> None:
    written(tmp_path / "x", [encoded("chat", 1)])
    os.truncate(tmp_path / "x" / name, 5)
    with pytest.raises(DataError, match=name):
        open_documents(tmp_path / "x")


def test_encoded_chunks_go_through_processes() -> None:
    chunk = encoded("pairs", 2)
    copy = pickle.loads(pickle.dumps(chunk))
    assert_same(Documents.of([copy]), Documents.of([chunk]))
