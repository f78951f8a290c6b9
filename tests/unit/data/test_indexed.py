from __future__ import annotations

import mmap
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from llmstack.data.indexed import DTYPES, IndexedTokens, smallest_dtype
from llmstack.data.indexed_writer import IndexedWriter
from llmstack.errors import DataError

SEQUENCES = ([5, 6, 7], [], [8], [9, 10])
HEADER_BYTES = 34
"""9 magic, 8 version, 1 dtype code, 8 + 8 counts."""
LENGTHS_AT, POINTERS_AT, DOCUMENTS_AT = HEADER_BYTES, HEADER_BYTES + 4 * 4, HEADER_BYTES + 4 * 4 + 4 * 8


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A pair of four sequences of uint16."""
    return write(tmp_path / "corpus.v1")


def write(prefix: Path, sequences=SEQUENCES, dtype=np.uint16) -> Path:
    with IndexedWriter(prefix, dtype) as writer:
        for ids in sequences:
            writer.add(ids)
    return prefix


def edit(path: Path, at: int, form: str, value: int | bytes) -> None:
    raw = bytearray(path.read_bytes())
    struct.pack_into(form, raw, at, value)
    path.write_bytes(raw)


def index_of(prefix: Path) -> Path:
    return Path(f"{prefix}.idx")


def ids_of(prefix: Path) -> Path:
    return Path(f"{prefix}.bin")


def test_what_a_pair_holds(prefix):
    data = IndexedTokens(prefix)
    assert (len(data), data.num_tokens, data.dtype) == (4, 6, np.dtype("uint16"))
    assert (data.lengths.dtype, data.offsets.dtype, data.documents.dtype) == (np.int32, np.int64, np.int64)
    assert data.lengths.tolist() == [3, 0, 1, 2]
    assert data.offsets.tolist() == [0, 3, 3, 4, 6]
    assert data.documents.tolist() == [0, 1, 2, 3, 4]
    assert data.tokens.tolist() == [5, 6, 7, 8, 9, 10]
    assert [data[i].tolist() for i in range(4)] == [list(ids) for ids in SEQUENCES]
    assert data[-1].tolist() == data[np.int64(3)].tolist() == [9, 10]
    assert data.largest_id() == 10


def test_the_files_byte_by_byte(prefix):
    assert ids_of(prefix).read_bytes() == struct.pack("<6H", 5, 6, 7, 8, 9, 10)
    expected = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 4, 5)
    expected += struct.pack("<4i", 3, 0, 1, 2) + struct.pack("<4q", 0, 6, 6, 8) + struct.pack("<5q", 0, 1, 2, 3, 4)
    assert index_of(prefix).read_bytes() == expected


def test_a_sequence_is_a_view_that_cannot_be_written_to(prefix):
    data = IndexedTokens(prefix)
    assert np.shares_memory(data[0], data.tokens) and isinstance(data.tokens, np.memmap)
    for ids in (data[0], data.tokens, data.lengths):
        with pytest.raises(ValueError, match="read-only"):
            ids[0] = 1


@pytest.mark.parametrize("i", [4, -5])
def test_a_sequence_that_is_not_there(prefix, i):
    with pytest.raises(IndexError, match=f"expected a sequence below 4, got {i}"):
        IndexedTokens(prefix)[i]


def test_iteration_ends(prefix):
    assert [ids.tolist() for ids in IndexedTokens(prefix)] == [list(ids) for ids in SEQUENCES]


@pytest.mark.parametrize("sequences", [[], [[], []]])
def test_a_pair_without_tokens(tmp_path, sequences):
    data = IndexedTokens(write(tmp_path / "empty", sequences))
    assert (len(data), data.num_tokens, data.largest_id(), data.tokens.size) == (len(sequences), 0, -1, 0)
    assert isinstance(data.tokens, np.memmap)
    data.release()


def test_another_process_opens_the_files_again(prefix):
    sent = pickle.dumps(IndexedTokens(prefix))
    assert len(sent) < 500
    assert pickle.loads(sent)[3].tolist() == [9, 10]


def test_smallest_dtype():
    assert (smallest_dtype(65_499), smallest_dtype(65_500)) == (np.dtype("uint16"), np.dtype("int32"))


def test_a_negative_id_is_found_where_it_is(tmp_path):
    prefix = write(tmp_path / "negative", dtype=np.int32)
    edit(ids_of(prefix), 4 * 3, "<i", -7)
    with pytest.raises(DataError, match=r"negative.bin: expected ids of at least 0, got -7 in sequence 2"):
        IndexedTokens(prefix).largest_id()


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssFile")))


@pytest.mark.skipif(
    not (hasattr(mmap, "MADV_DONTNEED") and Path("/proc/self/status").exists()), reason="needs Linux' figures"
)
def test_memory_stays_bounded_over_a_large_file(tmp_path):
    size = 64 << 20
    with IndexedWriter(tmp_path / "large", np.int32) as writer:
        writer.add(np.arange(size // 4))
    data = IndexedTokens(tmp_path / "large")
    before = resident_bytes()
    assert int(data.tokens.sum(dtype=np.int64)) == (size // 4) * (size // 4 - 1) // 2
    assert resident_bytes() - before > size // 2
    data.release()
    assert resident_bytes() - before < size // 16
    assert data.tokens[-1] == size // 4 - 1
    assert data.largest_id() == size // 4 - 1
    assert resident_bytes() - before < size // 16


def refused(prefix: Path) -> str:
    with pytest.raises(DataError) as caught:
        IndexedTokens(prefix)
    return str(caught.value)


def test_files_that_are_not_there(prefix, tmp_path):
    assert "nothing.bin: expected a file beside nothing.idx, got no such file. Correct the" in refused(
        tmp_path / "nothing"
    )
    assert f"Name the pair without the ending: {prefix}." in refused(ids_of(prefix))
    assert f"Name the pair without the ending: {prefix}." in refused(index_of(prefix))
    index_of(prefix).rename(tmp_path / "away")
    assert (
        "corpus.v1.idx: expected a file beside corpus.v1.bin, got no such file. The index is written last"
        in refused(prefix)
    )
    index_of(prefix).mkdir()
    assert "got a folder" in refused(prefix)


def test_an_index_cut_off_anywhere_is_refused(prefix):
    whole = index_of(prefix).read_bytes()
    for length in range(len(whole)):
        index_of(prefix).write_bytes(whole[:length])
        message = refused(prefix)
        expected = "begins with" if length < 9 else "at least 34 bytes" if length < HEADER_BYTES else "122 bytes for 4"
        assert f"{index_of(prefix)}: expected" in message and expected in message
    index_of(prefix).write_bytes(whole + b"\0")
    assert "expected 122 bytes for 4 sequences and 5 document bounds, got 123" in refused(prefix)


@pytest.mark.parametrize(("change", "words"), [(-1, "got 11. It was cut off"), (2, "got 14. It is not the file this")])
def test_ids_that_are_cut_off_or_too_many(prefix, change, words):
    raw = ids_of(prefix).read_bytes() + b"\0\0"
    ids_of(prefix).write_bytes(raw[: 12 + change])
    message = refused(prefix)
    assert f"{ids_of(prefix)}: expected 12 bytes as corpus.v1.idx says (6 ids of uint16), {words}" in message


@pytest.mark.parametrize(
    ("at", "form", "value", "words"),
    [
        (0, "5s", b"TNTID", r"expected an index that begins with b'MMIDIDX\x00\x00', got b'TNTIDDX\x00\x00'"),
        (9, "<Q", 2, "expected version 1 of the format, got 2"),
        (17, "<B", 9, "expected a dtype code for ids among 1 (uint8), 2 (int8), 3 (int16)"),
        (17, "<B", 9, "got 9 (unknown)"),
        (17, "<B", 7, "got 7 (float32)"),
        (17, "<B", 4, "expected sequence 1 to start at byte 12, behind those before it, got 6"),
        (18, "<Q", 3, "expected 110 bytes for 3 sequences and 5 document bounds, got 122"),
        (18, "<Q", 2**63, "document bounds, got 122"),
        (26, "<Q", 4, "expected 114 bytes for 4 sequences and 4 document bounds, got 122"),
        (LENGTHS_AT + 4, "<i", -1, "expected lengths of at least 0, got -1 for sequence 1"),
        (LENGTHS_AT, "<i", 2, "expected sequence 1 to start at byte 4, behind those before it, got 6"),
        (POINTERS_AT, "<q", 2, "expected sequence 0 to start at byte 0, behind those before it, got 2"),
        (POINTERS_AT + 16, "<q", 4, "expected sequence 2 to start at byte 6, behind those before it, got 4"),
        (
            POINTERS_AT + 24,
            "<q",
            2**40,
            "expected sequence 3 to start at byte 8, behind those before it, got 109951162777",
        ),
        (DOCUMENTS_AT, "<q", 1, "document bounds that rise from 0 to 4, the number of sequences, got 1 to 4"),
        (DOCUMENTS_AT + 32, "<q", 5, "document bounds that rise from 0 to 4, the number of sequences, got 0 to 5"),
        (DOCUMENTS_AT + 16, "<q", 0, "document bounds that rise from 0 to 4, the number of sequences, got 0 behind 1"),
    ],
)
def test_an_edited_index(prefix, at, form, value, words):
    edit(index_of(prefix), at, form, value)
    message = refused(prefix)
    assert message.startswith(f"{index_of(prefix)}: ") and words in message
    assert message.endswith((": write the pair again.", "Name Megatron token files."))


def test_an_edited_last_length(prefix):
    edit(index_of(prefix), LENGTHS_AT + 12, "<i", 3)
    assert "corpus.v1.bin: expected 14 bytes as corpus.v1.idx says (7 ids of uint16), got 12" in refused(prefix)


def test_an_index_without_document_bounds(prefix):
    raw = bytearray(index_of(prefix).read_bytes()[:DOCUMENTS_AT])
    struct.pack_into("<Q", raw, 26, 0)
    index_of(prefix).write_bytes(raw)
    assert "expected document bounds that rise from 0 to 4, the number of sequences, got none" in refused(prefix)


def test_an_index_of_pictures_and_text(prefix):
    index_of(prefix).write_bytes(index_of(prefix).read_bytes() + b"\0\1\0\1")
    assert "expected an index of text, got one with a mode for each sequence" in refused(prefix)


def test_the_index_of_another_pair(prefix, tmp_path):
    other = write(tmp_path / "other", [[1], [2, 3]])
    index_of(prefix).write_bytes(index_of(other).read_bytes())
    assert "corpus.v1.bin: expected 6 bytes" in refused(prefix)


def test_files_of_every_dtype(tmp_path):
    for code, dtype in DTYPES.items():
        prefix = write(tmp_path / dtype.name, dtype=dtype)
        assert index_of(prefix).read_bytes()[17] == code
        assert IndexedTokens(prefix).dtype == dtype


def test_an_index_larger_than_a_piece_that_is_checked_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("llmstack.data.indexed._CHUNK", 3)
    lengths = np.arange(20) % 4
    prefix = tmp_path / "pieces"
    with IndexedWriter(prefix, np.int32) as writer:
        writer.add_many(np.arange(lengths.sum()), lengths)
    data = IndexedTokens(prefix)
    assert data.offsets.tolist() == [0, *np.cumsum(lengths)]
    assert data.largest_id() == lengths.sum() - 1
    edit(index_of(prefix), HEADER_BYTES + 20 * 4 + 8 * 13, "<q", 1)
    assert f"expected sequence 13 to start at byte {4 * int(lengths[:13].sum())}" in refused(prefix)
    edit(index_of(prefix), HEADER_BYTES + 4 * 13, "<i", -2)
    assert "got -2 for sequence 13" in refused(prefix)
