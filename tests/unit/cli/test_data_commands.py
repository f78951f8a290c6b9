from __future__ import annotations

import sys
import types

import pytest

from llmstack.cli.main import main

JOBS = ("clean", "annotate")


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
