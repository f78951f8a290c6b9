from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmstack.data.cache import MANIFEST, cached_folder
from llmstack.errors import DataError

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Builder:
    """Writes ``a.txt`` and counts how often it was asked to."""

    def __init__(self, text: str = "hello") -> None:
        self.text, self.calls = text, 0

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "inside").mkdir()
        (folder / "inside" / "a.txt").write_text(self.text)


def test_a_folder_is_built_once(cache: Path) -> None:
    build = Builder()
    folder = cached_folder("group", "key", build)
    assert folder == cache / "group" / "key" and (folder / "inside" / "a.txt").read_text() == "hello"
    assert cached_folder("group", "key", build) == folder
    assert build.calls == 1
    assert cached_folder("group", "other", build) != folder
    assert build.calls == 2


def test_a_builder_that_fails_leaves_nothing(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half.txt").write_text("half")
        raise DataError("x:1: expected something else.")

    with pytest.raises(DataError, match="x:1"):
        cached_folder("group", "key", fail)
    assert [path.name for path in (cache / "group").iterdir() if path.is_dir()] == []
    assert (cached_folder("group", "key", Builder()) / MANIFEST).is_file()


def edited(path: Path) -> None:
    path.write_text("hellO")


def cut(path: Path) -> None:
    path.write_text("hell")


@pytest.mark.parametrize(("damage", "told"), [(edited, "it was edited"), (cut, "cut off"), (os.unlink, "deleted")])
def test_a_damaged_folder_is_named_and_built_again(damage, told: str, caplog) -> None:
    build = Builder()
    path = cached_folder("group", "key", build) / "inside" / "a.txt"
    damage(path)
    with caplog.at_level(logging.WARNING, logger="llmstack.data"):
        cached_folder("group", "key", build)
    assert build.calls == 2 and path.read_text() == "hello"
    assert str(path) in caplog.text and told in caplog.text


def test_a_damaged_manifest_is_built_again() -> None:
    build = Builder()
    manifest = cached_folder("group", "key", build) / MANIFEST
    manifest.write_text("[]")
    cached_folder("group", "key", build)
    assert build.calls == 2


def test_a_file_that_was_only_touched_is_fine() -> None:
    build = Builder()
    os.utime(cached_folder("group", "key", build) / "inside" / "a.txt", (1, 1))
    cached_folder("group", "key", build)
    assert build.calls == 1


def test_a_cache_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="expected a folder to keep prepared data in, got Not a directory"):
        cached_folder("group", "key", Builder())


_PROGRAM = """
import sys, time
from pathlib import Path
from llmstack.data.cache import cached_folder

def build(folder):
    with open(sys.argv[1], "a") as log:
        log.write("built\\n")
    time.sleep(float(sys.argv[2]))
    (folder / "a.txt").write_text("hello")

print(cached_folder("group", "key", build))
"""


def start(log: Path, seconds: float) -> subprocess.Popen:
    words = [sys.executable, "-c", _PROGRAM, str(log), str(seconds)]
    return subprocess.Popen(words, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)


def wait_for(log: Path) -> None:
    deadline = time.monotonic() + 60
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert log.exists()


def test_two_processes_build_once_and_a_killed_one_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    log = tmp_path / "log"
    killed = start(log, 60)
    wait_for(log)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (cache / "group" / "key").exists()
    both = [start(log, 1.0) for _ in range(2)]
    assert {process.communicate(timeout=60)[0].strip() for process in both} == {str(cache / "group" / "key")}
    assert [process.returncode for process in both] == [0, 0]
    assert log.read_text() == "built\n" * 2  # the killed one, and one of the two
    assert [path.name for path in (cache / "group").iterdir() if path.is_dir()] == ["key"]
