from __future__ import annotations

from pathlib import Path

from llmstack.cli.train import _table


def test_the_table_shows_every_evaluation_before_and_after():
    metrics = {"eval/accuracy_first": 0.5, "eval/accuracy": 0.9312, "train/loss": 0.1, "eval/loss": None}
    stage = {"kind": "reward", "wall_seconds": 12.3, "metrics": metrics}
    summary = {"recipe": "mine", "status": "done", "wall_seconds": 61.0, "stages": {"rm": stage}}
    text = _table(summary, Path("runs/mine"))
    assert text.splitlines()[0] == "mine: done in 61 s, files in runs/mine"
    assert "accuracy 0.5 -> 0.9312, loss none -> none" in text
