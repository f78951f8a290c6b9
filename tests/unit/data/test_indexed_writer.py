from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmstack.data.indexed import DTYPES, IndexedTokens
from llmstack.data.indexed_writer import IndexedWriter
from llmstack.errors import DataError

NAMES = st.sampled_from([dtype.name for dtype in DTYPES.values()])


@st.composite
def corpora(draw):
    """A dtype, and documents of sequences of ids that fit it."""
    name = draw(NAMES)
    ids = st.integers(0, int(np.iinfo(name).max))
    return name, draw(st.lists(st.lists(st.lists(ids, max_size=6), max_size=4), max_size=6))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corpora(), st.booleans(), st.booleans())
def test_what_is_written_is_read(tmp_path, corpus, at_once, ended):
    name, documents = corpus
    with IndexedWriter(tmp_path / "pair", name) as writer:
        for sequences in documents:
            if at_once:
                flat = [one for ids in sequences for one in ids]
                writer.add_many(np.array(flat, name), [len(ids) for ids in sequences])
            else:
                for ids in sequences:
                    writer.add(ids)
            if ended:
                writer.end_document()
    data = IndexedTokens(tmp_path / "pair")
    sequences = [ids for document in documents for ids in document]
    assert [ids.tolist() for ids in data] == sequences
    assert data.lengths.tolist() == [len(ids) for ids in sequences]
    assert data.largest_id() == max((one for ids in sequences for one in ids), default=-1)
    if ended:
        assert data.documents.tolist() == [0, *np.cumsum([len(document) for document in documents], dtype=int)]
    else:
        assert data.documents.tolist() == list(range(len(sequences) + 1))


def test_sequences_behind_the_last_end_are_a_document(tmp_path):
    with IndexedWriter(tmp_path / "pair", "int32") as writer:
        writer.add([1])
        writer.add([2])
        writer.end_document()
        writer.add([3])
        writer.add([4])
    assert IndexedTokens(tmp_path / "pair").documents.tolist() == [0, 2, 4]


def test_an_index_longer_than_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("llmstack.data.indexed_writer._CHUNK", 3)
    with IndexedWriter(tmp_path / "pair", "uint16") as writer:
        for length in range(10):
            writer.add([length] * length)
    data = IndexedTokens(tmp_path / "pair")
    assert data.lengths.tolist() == list(range(10))
    assert data.documents.tolist() == list(range(11))


@pytest.mark.parametrize(
    ("dtype", "ids", "words"),
    [
        ("uint16", [1, 65536], "expected ids from 0 to 65535 (uint16), got 65536 in sequence 2"),
        ("int32", [1, -1], "expected ids from 0 to 2147483647 (int32), got -1 in sequence 2"),
        ("int8", np.array([128], np.uint64), "expected ids from 0 to 127 (int8), got 128 in sequence 2"),
        ("uint16", [1.0], "expected ids as whole numbers (T,), got float64 (1,)"),
        ("uint16", [2**70], "expected ids as whole numbers (T,), got object (1,)"),
        ("uint16", [True], "expected ids as whole numbers (T,), got bool (1,)"),
        ("uint16", [[1, 2]], "expected ids as whole numbers (T,), got int64 (1, 2)"),
    ],
)
def test_ids_that_do_not_fit(tmp_path, dtype, ids, words):
    with pytest.raises(DataError) as caught, IndexedWriter(tmp_path / "pair", dtype) as writer:
        writer.add([1, 2])
        writer.add([])
        writer.add(ids)
    assert f"{tmp_path / 'pair.bin'}: {words}" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flat", "lengths", "words"),
    [
        ([1, 2, 3], [1, 1], "expected 2 ids as the lengths say, got 3"),
        ([1, 2], [3, -1], "expected lengths from 0 to 2147483647, got -1 to 3"),
        ([1, 2], [2**31], "expected lengths from 0 to 2147483647, got 2147483648 to 2147483648"),
        ([1, 2], [2.0], "expected lengths as whole numbers (N,), got float64 (1,)"),
        ([1, 2], [[2]], "expected lengths as whole numbers (N,), got int64 (1, 1)"),
        ([1, 300, 2], [0, 1, 2], "got 300 in sequence 2"),
    ],
)
def test_many_that_do_not_fit(tmp_path, flat, lengths, words):
    with pytest.raises(DataError) as caught, IndexedWriter(tmp_path / "pair", "uint8") as writer:
        writer.add_many(flat, lengths)
    assert words in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint32", "bool"])
def test_dtypes_that_hold_no_ids(tmp_path, dtype):
    with pytest.raises(DataError, match=f"expected ids stored as uint8, .*, got {dtype}. Choose one of them"):
        IndexedWriter(tmp_path / "pair", dtype)


def test_a_byte_order_is_not_kept(tmp_path):
    with IndexedWriter(tmp_path / "pair", ">i4") as writer:
        writer.add(np.array([1, 2], ">i8"))
    assert (tmp_path / "pair.bin").read_bytes() == bytes([1, 0, 0, 0, 2, 0, 0, 0])


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_remains_of_a_block_that_failed(tmp_path, error):
    with pytest.raises(error), IndexedWriter(tmp_path / "new" / "pair", "uint16") as writer:
        writer.add([1, 2])
        raise error
    assert list((tmp_path / "new").iterdir()) == []


def test_a_pair_is_replaced_and_who_reads_the_old_one_keeps_it(tmp_path):
    for ids in ([1, 2, 3], [4]):
        with IndexedWriter(tmp_path / "pair", "uint16") as writer:
            writer.add(ids)
        if ids == [1, 2, 3]:
            old = IndexedTokens(tmp_path / "pair")
    assert (old[0].tolist(), IndexedTokens(tmp_path / "pair")[0].tolist()) == ([1, 2, 3], [4])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pair.bin", "pair.idx"]


def test_until_the_end_there_is_no_index(tmp_path):
    (tmp_path / "pair.idx").write_bytes(b"of the pair before")
    with IndexedWriter(tmp_path / "pair", "uint16") as writer:
        writer.add([1])
        assert [path.name for path in tmp_path.iterdir()] == ["pair.bin"]
    assert (tmp_path / "pair.idx").exists()


@pytest.mark.parametrize("method", ["fsync", "replace"])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch, method):
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, method, full)
    words = r"pair.bin: expected to write here, got No space left on device. Make room"
    with pytest.raises(DataError, match=words), IndexedWriter(tmp_path / "pair", "uint16") as writer:
        writer.add([1])
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_no_file_can_be(tmp_path):
    Path(tmp_path, "file").write_text("")
    with pytest.raises(DataError, match="file/pair.bin: expected to write here, got "):
        IndexedWriter(tmp_path / "file" / "pair", "uint16").__enter__()


def test_outside_its_block(tmp_path):
    with pytest.raises(RuntimeError, match="inside its `with` block"):
        IndexedWriter(tmp_path / "pair", "uint16").add([1])
