from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sqlite3
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import llmstack
from llmstack.data import hashing
from llmstack.data.hashing import file_sha256, own_version, part_version
from llmstack.data.sources import TextFiles
from llmstack.errors import DataError

WRITER = """
import sys
from pathlib import Path
from llmstack.data import hashing
hashing._SETTLED_SECONDS = -1.0
for path in sorted(Path(sys.argv[1]).iterdir()):
    for _ in range(3):
        print(hashing.file_sha256(path))
"""


class Reads:
    """Counts how often a file is really read."""

    def __init__(self, read: Callable[[Path], str]) -> None:
        self.count, self._read = 0, read

    def __call__(self, path: Path) -> str:
        self.count += 1
        return self._read(path)


@pytest.fixture(autouse=True)
def reads(tmp_path, monkeypatch) -> Reads:
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hashing, "_SETTLED_SECONDS", -1.0)  # files of the tests are young
    monkeypatch.setattr(hashing, "_read", Reads(hashing._read))
    return hashing._read


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"one")
    return path


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_is_read_once(path, reads) -> None:
    assert [file_sha256(path) for _ in range(3)] == [sha(b"one")] * 3
    assert reads.count == 1
    path.parent.joinpath("link").symlink_to(path)
    assert file_sha256(path.parent / "link") == sha(b"one")
    assert reads.count == 1


def test_a_large_file_is_hashed_in_blocks(path, monkeypatch) -> None:
    monkeypatch.setattr(hashing, "_BLOCK", 7)
    path.write_bytes(bytes(range(256)) * 3)
    assert file_sha256(path) == sha(bytes(range(256)) * 3)


def grown(path: Path) -> None:
    path.write_bytes(b"two and more")


def rewritten(path: Path) -> None:
    path.write_bytes(b"two")
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


def rewritten_with_the_old_time(path: Path) -> None:
    before = path.stat().st_mtime_ns
    path.write_bytes(b"two")
    os.utime(path, ns=(before, before))  # the time of the status still tells


def replaced(path: Path) -> None:
    before = path.stat().st_mtime_ns
    other = path.with_name("other")
    other.write_bytes(b"two")
    os.utime(other, ns=(before, before))
    os.replace(other, path)


@pytest.mark.parametrize("change", [grown, rewritten, rewritten_with_the_old_time, replaced])
def test_a_changed_file_is_read_again(path, reads, change) -> None:
    file_sha256(path)
    change(path)
    assert file_sha256(path) == sha(path.read_bytes()) != sha(b"one")
    assert reads.count == 2


def test_another_file_of_the_same_stamp_is_read(path, reads) -> None:
    other = path.with_name("copy")
    os.link(path, other)  # same size, times and inode, but another name
    assert file_sha256(other) == file_sha256(path)
    assert reads.count == 2


def test_a_young_file_is_not_remembered(path, reads, monkeypatch) -> None:
    monkeypatch.setattr(hashing, "_SETTLED_SECONDS", 3600.0)
    assert [file_sha256(path) for _ in range(2)] == [sha(b"one")] * 2
    assert reads.count == 2


@pytest.mark.parametrize("content", [b"this is no database", b"", b"SQLite format 3\0" + b"x" * 200])
def test_a_damaged_memory_costs_only_time(path, tmp_path, content) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "file_hashes.sqlite").write_bytes(content)
    assert [file_sha256(path) for _ in range(2)] == [sha(b"one")] * 2


def test_a_memory_of_another_form_costs_only_time(path, tmp_path) -> None:
    (tmp_path / "cache").mkdir()
    with sqlite3.connect(tmp_path / "cache" / "file_hashes.sqlite") as other:
        other.execute("CREATE TABLE files (path TEXT)")
    assert [file_sha256(path) for _ in range(2)] == [sha(b"one")] * 2


def test_where_nothing_can_be_kept_hashes_are_taken(path, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(path / "below a file"))
    assert file_sha256(path) == sha(b"one")


def test_processes_share_the_memory(path, tmp_path, reads) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    contents = [f"file {number}".encode() for number in range(30)]
    for number, content in enumerate(contents):
        (folder / f"{number:02}").write_bytes(content)
    command = [sys.executable, "-c", WRITER, str(folder)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    wanted = [sha(content) for content in contents for _ in range(3)]
    for writer in writers:
        assert writer.communicate(timeout=100)[0].split() == wanted
        assert writer.returncode == 0
    assert [file_sha256(folder / f"{number:02}") for number in range(30)] == wanted[::3]
    assert reads.count == 0


def test_a_name_that_is_no_text(tmp_path, reads) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_bytes(b"one")
    assert [file_sha256(path) for _ in range(2)] == [sha(b"one")] * 2
    assert reads.count == 1


def test_a_file_that_cannot_be_read_is_named(tmp_path) -> None:
    with pytest.raises(DataError, match=r"none.txt: expected a readable file, got No such file or directory\."):
        file_sha256(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"got Is a directory\."):
        file_sha256(tmp_path)


def test_version_of_a_plugin_is_its_file(path, monkeypatch) -> None:
    path = path.with_name("some_plugin.py")
    path.write_text("class Source:\n    pass\n\ndef function():\n    pass\n")
    spec = importlib.util.spec_from_file_location("some_plugin", path)
    plugin = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "some_plugin", plugin)
    spec.loader.exec_module(plugin)
    first = part_version(plugin.Source)
    assert first == part_version(plugin.function) == sha(path.read_bytes())
    path.write_text("class Source:\n    changed = True\n")
    assert part_version(plugin.Source) != first


def test_what_has_no_file_or_is_ours_has_no_version() -> None:
    typed = types.ModuleType("__main__")
    exec(compile("class Typed: pass\ndef typed(): pass", "<stdin>", "exec"), typed.__dict__)
    main, sys.modules["__main__"] = sys.modules["__main__"], typed
    try:
        assert part_version(typed.Typed) is None
        assert part_version(typed.typed) is None
    finally:
        sys.modules["__main__"] = main
    assert part_version(functools.partial(print)) is part_version(dict) is part_version(TextFiles) is None


def test_own_version_changes_with_every_source_file(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    for name in ("hashing.py", "sub/deep.py"):
        (folder / name).write_text("a")
    monkeypatch.setattr(hashing, "__file__", str(folder / "hashing.py"))
    seen = []
    changes = [None, ("sub/deep.py", "b"), ("more.py", ""), ("hashing.py", "c"), ("notes.txt", "not code")]
    for change in changes:
        if change is not None:
            (folder / change[0]).write_text(change[1])
        seen.append(own_version.__wrapped__())
    assert len(set(seen)) == 4 and seen[-1] == seen[-2]
    (folder / "more.py").rename(folder / "other.py")
    assert own_version.__wrapped__() not in seen
    assert Path(llmstack.__file__).parent / "data" == Path(own_version.__wrapped__.__code__.co_filename).parent
