from __future__ import annotations

import logging
import shutil
import subprocess

import pytest

from llmstack.nn.native import build

needs_compiler = pytest.mark.skipif(build._compiler() is None, reason="no C++ compiler on this machine")


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """``library`` as in a new process, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LLMSTACK_NATIVE", raising=False)
    build.library.cache_clear()
    yield tmp_path
    build.library.cache_clear()


@needs_compiler
def test_compiles_once_and_leaves_no_half_written_file(fresh, monkeypatch):
    # a stand-in source keeps the test short; the real ones are compiled by every run of the other tests
    (fresh / "sources").mkdir()
    (fresh / "sources" / "one.cc").write_text('extern "C" int one() { return 1; }\n')
    monkeypatch.setattr(build, "_SOURCES", fresh / "sources")
    path = build.library()
    assert path is not None
    assert [str(file) for file in build.cache_folder().iterdir()] == [path]
    build.library.cache_clear()
    monkeypatch.setattr(build, "_compile", None)
    assert build.library() == path


@needs_compiler
def test_another_source_gives_another_library(fresh, monkeypatch):
    (fresh / "sources").mkdir()
    monkeypatch.setattr(build, "_SOURCES", fresh / "sources")
    (fresh / "sources" / "one.cc").write_text("int one = 1;\n")
    first = build._key(build._compiler())
    (fresh / "sources" / "one.cc").write_text("int one = 2;\n")
    assert build._key(build._compiler()) != first


def test_can_be_turned_off(fresh, monkeypatch):
    monkeypatch.setenv("LLMSTACK_NATIVE", "0")
    assert build.library() is None


def test_without_a_compiler_says_so(fresh, monkeypatch, caplog):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with caplog.at_level(logging.WARNING, logger="llmstack"):
        assert build.library() is None
    assert "no C++ compiler found" in caplog.text


def test_a_failing_compiler_is_reported_not_fatal(fresh, monkeypatch, caplog):
    def fail(compiler, target):
        raise subprocess.CalledProcessError(1, compiler, stderr="error: unknown target")

    monkeypatch.setattr(build, "_compiler", lambda: "c++")
    monkeypatch.setattr(build, "_key", lambda compiler: "key")
    monkeypatch.setattr(build, "_compile", fail)
    with caplog.at_level(logging.WARNING, logger="llmstack"):
        assert build.library() is None
    assert "error: unknown target" in caplog.text
