from __future__ import annotations

import sys
import types

import pytest

from llmstack.cli.main import main

JOBS = ("prepare", "stats", "show", "clean", "annotate")


@pytest.mark.parametrize("name", JOBS)
def test_each_job_has_help(name, capsys):
    assert main(["data", name, "--help"]) == 0
    assert f"usage: llmstack data {name}" in capsys.readouterr().out


def test_a_job_is_needed(capsys):
    assert main(["data"]) == 2
    assert "JOB" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["clean", "annotate"])
def test_a_job_with_a_file_gets_it_and_the_overrides(name, monkeypatch):
    seen = []
    monkeypatch.setitem(sys.modules, f"llmstack.cli.data_{name}", types.SimpleNamespace(run=seen.append))
    assert main(["data", name, "job.yaml", "out=x", "seed=1"]) == 0
    assert (seen[0].recipe, seen[0].overrides) == ("job.yaml", ["out=x", "seed=1"])


@pytest.mark.parametrize("name", ["prepare", "stats", "show"])
def test_options_of_a_job_may_stand_anywhere(name, monkeypatch):
    seen = []
    monkeypatch.setitem(sys.modules, f"llmstack.cli.data_{name}", types.SimpleNamespace(run=seen.append))
    assert main(["data", name, "mine.yaml", "seed=1", "--stage", "base", "name=x"]) == 0
    assert (seen[0].recipe, seen[0].overrides, seen[0].stage) == ("mine.yaml", ["seed=1", "name=x"], "base")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "r"], "--stage"),
        (["show", "r", "--stage", "s", "--row", "1", "--step", "2"], "not allowed with"),
        (["show", "r", "--stage", "s", "--step", "0"], "expected a whole number of at least 1"),
        (["show", "r", "--stage", "s", "--rows", "none"], "expected a whole number of at least 1"),
        (["stats"], "RECIPE"),
    ],
)
def test_wrong_options(words, message, capsys):
    assert main(["data", *words]) == 2
    assert message in capsys.readouterr().err
