from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmstack.data.cache import MANIFEST, cached_folder
from llmstack.errors import DataError

PROCESS = """
import sys, time
from pathlib import Path
from llmstack.data.cache import cached_folder

def build(folder):
    with open(sys.argv[1], "a") as log:
        print("built", file=log)
    (folder / "half").write_text("half")
    print("begun", flush=True)
    time.sleep(float(sys.argv[2]))
    (folder / "whole").write_text("whole")

print((cached_folder("things", "key", build) / "whole").read_text())
"""


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """The folder of the group ``things``."""
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "things"


class Builder:
    """Writes two files, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, folder: Path) -> None:
        assert list(folder.iterdir()) == []
        self.count += 1
        (folder / "deep").mkdir()
        (folder / "deep" / "ids").write_bytes(b"0123456789")
        (folder / "empty").touch()


def process(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROCESS, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def visible(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.endswith(".lock"))


def test_a_key_is_built_once_and_another_key_again(root) -> None:
    build = Builder()
    folder = cached_folder("things", "a", build)
    assert (folder / "deep" / "ids").read_bytes() == b"0123456789"
    assert cached_folder("things", "a", build) == folder == root / "a"
    assert build.count == 1
    assert cached_folder("things", "b", build) != folder
    assert cached_folder("others", "a", build) != folder
    assert (build.count, visible(root)) == (3, ["a", "b"])


def test_two_processes_build_a_key_once(tmp_path, caplog) -> None:
    log = tmp_path / "log"
    first = process(log, 1.0)
    assert first.stdout is not None and first.stdout.readline() == "begun\n"
    second = process(log, 0.0)
    with caplog.at_level(logging.INFO, "llmstack.data"):
        here = cached_folder("things", "key", Builder())  # a third that has to wait
    assert (here / "whole").read_text() == "whole"
    assert first.communicate(timeout=60)[0] == "whole\n"
    assert second.communicate(timeout=60)[0] == "whole\n"
    assert log.read_text() == "built\n"
    assert caplog.messages == ["another process is preparing key; waiting for it"]


def test_what_a_killed_builder_leaves_is_built_again(tmp_path, root) -> None:
    builder = process(tmp_path / "log", 60.0)
    assert builder.stdout is not None and builder.stdout.readline() == "begun\n"
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    build = Builder()
    started = time.monotonic()
    folder = cached_folder("things", "key", build)
    assert time.monotonic() - started < 30  # nobody waits for the dead
    assert (build.count, visible(root)) == (1, ["key"])
    assert sorted(path.name for path in folder.iterdir()) == ["deep", "empty", MANIFEST]


def cut_off(folder: Path) -> Path:
    os.truncate(folder / "deep" / "ids", 4)
    return folder / "deep" / "ids"


def edited(folder: Path) -> Path:
    (folder / "deep" / "ids").write_bytes(b"0123456780")
    return folder / "deep" / "ids"


def deleted(folder: Path) -> Path:
    (folder / "empty").unlink()
    return folder / "empty"


def list_edited(folder: Path) -> Path:
    (folder / MANIFEST).write_text('["ids"]')
    return folder / MANIFEST


def list_cut_off(folder: Path) -> Path:
    os.truncate(folder / MANIFEST, 20)
    return folder / MANIFEST


@pytest.mark.parametrize("damage", [cut_off, edited, deleted, list_edited, list_cut_off])
def test_a_damaged_folder_is_named_and_built_again(damage, caplog) -> None:
    build = Builder()
    folder = cached_folder("things", "key", build)
    path = damage(folder)
    assert (cached_folder("things", "key", build), build.count) == (folder, 2)
    (message,) = caplog.messages
    assert message.startswith(f"{path}: expected ") and message.endswith("; preparing it again")
    assert (folder / "deep" / "ids").read_bytes() == b"0123456789"
    cached_folder("things", "key", build)
    assert (build.count, len(caplog.messages)) == (2, 1)


def test_a_copied_cache_is_used(tmp_path, monkeypatch, caplog) -> None:
    build = Builder()
    cached_folder("things", "key", build)
    shutil.copytree(tmp_path / "cache", tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*"):
        os.utime(path, (1e9, 1e9))
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "copy"))
    assert cached_folder("things", "key", build) == tmp_path / "copy" / "things" / "key"
    assert (build.count, caplog.messages) == (1, [])


def test_a_folder_without_a_list_is_no_folder(root) -> None:
    (root / "key").mkdir(parents=True)
    (root / "key" / "left").touch()
    cached_folder("things", "key", Builder())
    assert not (root / "key" / "left").exists()


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyboardInterrupt(), DataError("a:1: wrong"), ConnectionError("gone")]
)
def test_what_a_builder_raises_comes_out_and_leaves_nothing(error, root) -> None:
    def build(folder: Path) -> None:
        (folder / "half").touch()
        raise error

    with pytest.raises(type(error)) as caught:
        cached_folder("things", "key", build)
    assert caught.value is error  # an OSError of a source is not blamed on the cache
    assert visible(root) == []
    later = Builder()
    cached_folder("things", "key", later)
    assert later.count == 1


def test_a_full_disk_is_told_with_a_fix(root) -> None:
    def build(folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        DataError, match=rf"^{root}: .*No space left on device. Make room there, or set LLMSTACK_DATA_CACHE"
    ):
        cached_folder("things", "key", build)
    assert visible(root) == []


def test_a_cache_that_cannot_be_written_is_told_with_a_fix(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "file" / "cache"))
    build = Builder()
    with pytest.raises(DataError, match=r"file/cache/things: expected a folder .*set LLMSTACK_DATA_CACHE to a folder"):
        cached_folder("things", "key", build)
    assert build.count == 0
