from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.data import files
from llmstack.data.files import files_fingerprint, is_jsonl, is_text, read_lines, read_text, resolve_files, text_chunks
from llmstack.errors import DataError


def test_glob_crosses_folders(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.txt").write_text("a")
    assert resolve_files(str(tmp_path / "**" / "*.txt")) == [tmp_path / "x" / "a.txt"]


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a readable file, got Is a directory"):
        read_text(tmp_path)


def test_text_has_unix_line_ends_and_no_mark(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree")
    assert read_text(tmp_path / "a.txt") == "one\ntwo\nthree"


def pack(path: Path, data: bytes) -> Path:
    with pyarrow.CompressedOutputStream(str(path), files.COMPRESSIONS[path.suffix]) as stream:
        stream.write(data)
    return path


@given(
    st.lists(
        st.sampled_from([b"a", "\u00e9\u6771".encode(), b"\n", b"\r\n", b"\r", b" ", b"\xef\xbb\xbf"]), max_size=30
    ),
    st.integers(1, 9),
)
def test_lines_do_not_depend_on_how_the_file_is_read(parts: list[bytes], block: int) -> None:
    data = b"".join(parts)
    whole = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_blocks", lambda _: (data[i : i + block] for i in range(0, len(data), block)))
        assert read_text(Path("x")) == whole
        found = list(read_lines(Path("x")))
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    lines = whole.split("\n")
    assert [line for _, line in found] == (lines if lines[-1] else lines[:-1])


@pytest.mark.parametrize("block", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("data", "line"), [(b"a\r\nb\r\n\xc3\xa9\xff\n", 3), (b"\xff", 1), (b"a\rb\rc\xc3", 3), (b"a\n\nok\xc3\nb\n", 3)]
)
def test_the_first_bad_byte_is_named_by_its_line(monkeypatch, data: bytes, line: int, block: int) -> None:
    monkeypatch.setattr(files, "_blocks", lambda _: (data[i : i + block] for i in range(0, len(data), block)))
    with pytest.raises(DataError, match=rf"^x:{line}: expected UTF-8 text, got byte 0x(ff|c3)"):
        list(read_lines(Path("x")))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files_are_unpacked_as_they_are_read(tmp_path: Path, suffix: str) -> None:
    text = "".join(f"line {number} \u00e9\n" for number in range(200_000))
    path = pack(tmp_path / f"a.txt{suffix}", text.encode())
    assert read_text(path) == text
    assert len(list(text_chunks(path))) > 2
    path.write_bytes(path.read_bytes() * 2)  # both formats may hold several archives, one after the other
    assert read_text(path) == text * 2


def test_archives_of_other_programs_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\ntwo"))
    assert list(read_lines(tmp_path / "a.gz")) == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-1], "Truncated"),
        (lambda data: data[: len(data) // 2], "Truncated"),
        (lambda data: data + b"more", "failed"),
        (lambda data: b"plain text", "failed"),
        (lambda data: b"", "an empty file"),
    ],
)
def test_a_damaged_archive_is_refused_by_name(tmp_path: Path, suffix: str, damage, reason: str) -> None:
    path = pack(tmp_path / f"a.txt{suffix}", b"some text\n" * 1000)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=rf"a\.txt{suffix}: expected a whole (gzip|zstd) archive, got .*{reason}"):
        read_text(path)


def test_a_line_above_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n" + "\u00e9" * 5 + "\nb")
    assert len(list(read_lines(tmp_path / "a.txt", max_bytes=10))) == 3
    with pytest.raises(DataError, match=r"a\.txt:2: expected a record of at most 9 bytes \(max_record_bytes\)"):
        list(read_lines(tmp_path / "a.txt", max_bytes=9))


def test_a_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.txt.zst", b"x\n" + b"0" * 50_000_000)
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match=r"a\.txt\.zst:2: expected a record of at most 3000000 bytes"):
        list(read_lines(path, max_bytes=3_000_000))


@pytest.mark.parametrize(
    ("name", "found"), [("a.jsonl", True), ("x/*.jsonl.gz", True), ("a.jsonl.zst", True), ("a.gz", False), ("a", False)]
)
def test_json_lines_by_name(name: str, found: bool) -> None:
    assert is_jsonl(name) is found


def test_a_fingerprint_is_of_contents_in_order(tmp_path: Path) -> None:
    for name, text in (("a.txt", "one"), ("b.txt", "two"), ("c.md", "onetwo")):
        (tmp_path / name).write_text(text)
    both = files_fingerprint(str(tmp_path / "*.txt"))
    assert both == files_fingerprint(str(tmp_path / "c.md"))
    assert both != files_fingerprint(str(tmp_path / "a.txt"))


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert is_text("plain") and is_text("na\u00efve \U0001f600")
    assert not is_text("a\ud83d")
