from __future__ import annotations

import pytest

from llmstack.cli.main import main
from tests.integration.tiny_run import overrides


def test_the_run_is_written_and_its_start_told(tmp_path, capsys):
    out = tmp_path / "out"
    more = ["stages.base.budget=1 step", "--stage", "base", "--out", str(out)]
    assert main(["export-mindformers", "quickstart", *overrides(tmp_path / "run"), *more]) == 0
    assert f"python {out}/train.py" in capsys.readouterr().out
    assert (out / "run.yaml").is_file()


@pytest.mark.parametrize("command", [["export-mindformers"], ["export", "--mindformers"]])
def test_a_stage_it_cannot_hand_over_is_the_users_mistake(command, tmp_path, capsys):
    assert main([*command, "quickstart", "--stage", "rm", "--out", str(tmp_path / "out")]) == 2
    assert "MindFormers has no trainer for it" in capsys.readouterr().err


@pytest.mark.parametrize("left_out", ["--stage", "--out"])
def test_stage_and_folder_are_needed(left_out, capsys):
    given = {"--stage": "base", "--out": "out"}
    words = [word for option, value in given.items() if option != left_out for word in (option, value)]
    assert main(["export-mindformers", "quickstart", *words]) == 2
    assert left_out in capsys.readouterr().err
