from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
import time

import pytest

from llmstack.annotation.cache import AnswerCache, key_of
from llmstack.annotation.requests import Reply
from llmstack.errors import DataError


@pytest.fixture
def cache(tmp_path):
    with AnswerCache(tmp_path / "folder" / "cache.sqlite") as opened:
        yield opened


def keep(cache, key, text):
    return cache.keep(key, Reply(text, "", 3, None), source="u m", request={"text": "é"})


def test_a_key_is_that_of_everything_an_answer_depends_on():
    base = key_of("u", "m", {"a": 1, "b": [2]}, 0)
    assert key_of("u", "m", {"b": [2], "a": 1}, 0) == base and len(base) == 64
    others = [("v", "m", {"a": 1, "b": [2]}, 0), ("u", "n", {"a": 1, "b": [2]}, 0), ("u", "m", {"a": 1}, 0),
              ("u", "m", {"a": 1, "b": [2]}, 1)]  # fmt: skip
    assert len({base, *(key_of(*other) for other in others)}) == 5


def test_what_is_kept_is_found_by_whoever_opens_the_file(cache):
    assert keep(cache, "k", "x\ny") == Reply("x\ny", "", 3, None)
    with AnswerCache(cache.path) as other:
        assert other.find(["k", "none"]) == {"k": Reply("x\ny", "", 3, None)}
        assert other.find([]) == {}


def test_many_keys_are_found_in_several_questions(cache, monkeypatch):
    monkeypatch.setattr("llmstack.annotation.cache._AT_ONCE", 7)
    for n in range(23):
        keep(cache, f"k{n}", str(n))
    found = cache.find([f"k{n}" for n in range(30)])
    assert len(found) == 23 and found["k22"].text == "22"


def test_the_first_answer_stays(cache):
    keep(cache, "k", "first")
    assert keep(cache, "k", "second").text == "first"


def test_threads_share_it(cache):
    threads = [threading.Thread(target=lambda n=n: [keep(cache, f"{n}.{i}", "x") for i in range(20)]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache.find([f"{n}.{i}" for n in range(4) for i in range(20)])) == 80


def _fill(path, name, ready, count):
    with AnswerCache(path) as cache:
        ready.set()
        for n in range(count):
            keep(cache, f"{name}.{n}", name)


def test_processes_share_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "cache.sqlite"
    ready = context.Event()
    others = [context.Process(target=_fill, args=(path, name, ready, 30)) for name in "ab"]
    for other in others:
        other.start()
    for other in others:
        other.join(60)
    with AnswerCache(path) as cache:
        assert len(cache.find([f"{name}.{n}" for name in "ab" for n in range(30)])) == 60


def test_a_kill_in_the_middle_loses_no_answer_that_was_kept(tmp_path):
    context = multiprocessing.get_context("spawn")
    path, ready = tmp_path / "cache.sqlite", context.Event()
    other = context.Process(target=_fill, args=(path, "a", ready, 10**9))
    other.start()
    assert ready.wait(60)
    with AnswerCache(path) as cache:
        while not cache.find(["a.5"]):
            time.sleep(0.01)
        os.kill(other.pid, signal.SIGKILL)
        other.join(60)
        assert len(cache.find([f"a.{n}" for n in range(6)])) == 6
        assert keep(cache, "b", "x").text == "x"
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "cache.sqlite").write_text("not a database, and long enough not to be taken for an empty one" * 9)
    with pytest.raises(DataError, match=r"cache: expected a file of answers .*cache.sqlite \(file is not a database\)"):
        AnswerCache(tmp_path / "cache.sqlite")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cache: expected a file of answers"):
        AnswerCache(tmp_path / "file" / "cache.sqlite")
