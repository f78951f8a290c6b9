from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from llmstack.data import hashing
from llmstack.data.hashing import file_sha256, own_version, part_version
from llmstack.data.sources import TextFiles
from llmstack.errors import DataError


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """A settled file: one that was last changed long ago."""
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hashing, "_SETTLED_SECONDS", -1.0)
    path = tmp_path / "a.txt"
    path.write_text("hello")
    return path


@pytest.fixture
def reads(monkeypatch) -> list[Path]:
    """The files whose content was read."""
    seen: list[Path] = []
    read = hashing._read
    monkeypatch.setattr(hashing, "_read", lambda path: seen.append(path) or read(path))
    return seen


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_hash_is_remembered(file: Path, reads: list[Path]) -> None:
    assert file_sha256(file) == file_sha256(file) == sha("hello")
    assert reads == [file]


def test_a_changed_file_is_read_again(file: Path, reads: list[Path]) -> None:
    file_sha256(file)
    stat = file.stat()
    file.write_text("jello")
    os.utime(
        file, ns=(stat.st_atime_ns, stat.st_mtime_ns)
    )  # same size, same time of change: only the status time tells
    assert file_sha256(file) == sha("jello")
    other = file.with_name("b.txt")
    other.write_text("cello")
    os.replace(other, file)
    assert file_sha256(file) == sha("cello")
    assert len(reads) == 3


def test_a_young_file_is_not_remembered(file: Path, reads: list[Path], monkeypatch) -> None:
    monkeypatch.setattr(hashing, "_SETTLED_SECONDS", 1e9)
    file_sha256(file)
    file_sha256(file)
    assert len(reads) == 2


@pytest.mark.parametrize("content", [b"not a database", b""])
def test_a_damaged_memory_costs_only_time(file: Path, content: bytes) -> None:
    memory = file.parent / "cache" / "file_hashes.sqlite"
    memory.parent.mkdir()
    memory.write_bytes(content)
    assert file_sha256(file) == sha("hello")


def test_no_memory_costs_only_time(file: Path, monkeypatch) -> None:
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(file / "below"))
    assert file_sha256(file) == sha("hello")


def test_many_may_ask_at_once(file: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(file_sha256(file))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [sha("hello")] * 8


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.txt: expected a readable file, got No such file"):
        file_sha256(tmp_path / "nothing.txt")


def test_own_parts_have_no_version_of_their_own_and_plugins_that_of_their_file() -> None:
    assert part_version(TextFiles) is None and part_version(len) is None
    assert part_version(sha) == sha(Path(__file__).read_text())


def test_the_code_has_a_version(tmp_path: Path, monkeypatch) -> None:
    version = own_version()
    assert len(version) == 64 and own_version() == version
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.py").write_text("1")
    monkeypatch.setattr(hashing, "__file__", str(tmp_path / "data" / "hashing.py"))
    own_version.cache_clear()
    first = own_version()
    (tmp_path / "data" / "a.py").write_text("2")
    own_version.cache_clear()
    assert len({version, first, own_version()}) == 3
    own_version.cache_clear()
