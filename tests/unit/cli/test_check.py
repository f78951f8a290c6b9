from __future__ import annotations

import os

import pytest

from llmstack.cli.main import main


def test_a_good_recipe_is_summed_up(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        main(
            ["check", "quickstart", "run_dir=elsewhere", "stages.policy.budget=5 steps", "stages.base.budget=2M tokens"]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert out.splitlines()[0].endswith("recipes/quickstart.yaml: ok")
    assert "run folder  elsewhere" in out
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["base", "pretrain", "2M", "tokens"],
        ["sft", "sft", "1.5", "epochs,", "from", "base"],
        ["rm", "reward", "2", "epochs,", "from", "sft"],
        ["policy", "ppo", "5", "steps,", "from", "sft"],
    ]
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ["nothing.yaml"],
            "nothing.yaml: expected a recipe file or the name of a shipped recipe (blend_anneal",
        ),
        (["quickstart", "sed=1"], "sed: expected a known key"),
        (["quickstart", "stages.base.budget=-1 steps"], "stages.base.budget: expected an amount of steps"),
        (["quickstart", "broken"], "broken: expected key=value"),
    ],
)
def test_a_wrong_recipe_ends_with_status_2(argv, words, capsys):
    assert main(["check", *argv]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
