"""A stage's notes: status, numbers, what changed."""

from __future__ import annotations

import pytest

from llmstack.engine.fingerprint import StageIdentity
from llmstack.engine.record import StageResult
from llmstack.engine.stage_folder import StageFolder, outdated, read_notes

RESULT = StageResult(3, 30, 1.5, 0.5, 20.0, 1, {"train/loss": 2.0, "eval/x": None})


def identity(beta=0.1):
    return StageIdentity({"kl": {"beta": beta}}, {}, {})


def make(path, beta=0.1):
    return StageFolder(path / "policy", "policy", kind="ppo", identity=identity(beta))


def test_notes_survive_the_process(tmp_path):
    folder = make(tmp_path)
    assert folder.result is None and not folder.finished
    folder.note(RESULT)
    again = make(tmp_path)
    assert again.result == RESULT and not again.finished
    assert read_notes(again.path)["status"] == "running"


def test_finished_needs_the_status_and_the_model(tmp_path):
    folder = make(tmp_path)
    folder.finish(RESULT)
    assert not make(tmp_path).finished
    folder.write_final(lambda into: (into / "config.json").write_text("{}"))
    assert make(tmp_path).finished
    folder.note(None, "failed")
    assert not make(tmp_path).finished and make(tmp_path).result == RESULT


def test_change_is_told(tmp_path):
    calls = []
    folder = StageFolder(
        tmp_path / "policy", "policy", kind="ppo", identity=identity(), on_change=lambda: calls.append(1)
    )
    folder.note(RESULT)
    assert calls == [1]


def test_what_is_outdated(tmp_path):
    assert outdated(tmp_path / "policy", identity()) == []
    make(tmp_path).note(None)
    assert outdated(tmp_path / "policy", identity()) == []
    assert outdated(tmp_path / "policy", identity(0.2)) == ["config.kl.beta: 0.1 -> 0.2"]


@pytest.mark.parametrize("content", [None, "", "{", "[]"])
def test_folder_without_readable_notes_is_outdated(tmp_path, content):
    folder = make(tmp_path)
    assert outdated(folder.path, identity()) == []  # empty: nothing to move aside
    (folder.path / "metrics.jsonl").write_text("")
    if content is not None:
        (folder.path / "stage.json").write_text(content)
    assert outdated(folder.path, identity()) == ["its stage.json is missing"]


def test_half_written_model_is_cleared(tmp_path):
    (tmp_path / "policy" / ".tmp-final").mkdir(parents=True)
    folder = make(tmp_path)
    assert not (folder.path / ".tmp-final").exists()
