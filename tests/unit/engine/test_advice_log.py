"""``advice.jsonl``: written with the log, cut back and gone on with after a resume."""

from __future__ import annotations

import json
import logging
import os
import signal

import numpy as np
import pytest

from llmstack.engine.advice_log import AdviceLog
from llmstack.engine.loop import fit
from llmstack.engine.metrics import JsonLines
from llmstack.engine.protocol import StepReport
from llmstack.errors import Interrupted
from tests.unit.engine.fake_stage import INTERVALS, FakeStage, stage_folder


class CutOff(FakeStage):
    """Most answers are cut off in steps 1 to 20 and 41 to 60."""

    def __init__(self, **options):
        super().__init__(total_steps=60, **options)

    def step(self, index):
        report = super().step(index)
        share = 0.9 if (index - 1) // 20 != 1 else 0.0
        return StepReport({**report.metrics, "train/truncated_ratio": share}, report.tokens, gauges=report.gauges)


def advice(folder):
    return [json.loads(line) for line in folder.advice.read_text().splitlines()]


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = stage_folder(tmp_path_factory.mktemp("straight"))
    fit(CutOff(), folder, INTERVALS)
    return folder


def test_the_loop_hands_on_its_lines(straight):
    # lines at steps 1, 3, 6, 9, ...: the fourth reading is step 9; from 42 on the readings are 0.6, 0.9, 0.9
    given = advice(straight)
    assert [(line["step"], line["name"]) for line in given] == [(9, "many_truncated"), (48, "many_truncated")]
    assert given[0]["sentence"].startswith("Most answers never end (90% are cut off")


@pytest.mark.parametrize("stop_at", [5, 9, 10, 30, 50, 55])
def test_a_resumed_run_gives_the_advice_of_one_never_stopped(tmp_path, straight, stop_at):
    stage = CutOff(on_step=lambda index: index == stop_at and os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        fit(stage, stage_folder(tmp_path), INTERVALS)
    folder = stage_folder(tmp_path)
    fit(CutOff(), folder, INTERVALS)
    assert folder.advice.read_text() == straight.advice.read_text()


def test_advice_of_steps_that_are_taken_again_goes(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    with JsonLines(metrics, after=-1) as log:
        for step in range(1, 4):
            log.append({"step": step, "train/truncated_ratio": 0.9})
    with JsonLines(tmp_path / "advice.jsonl", after=-1) as old:
        old.append({"step": 4, "name": "many_truncated", "sentence": "Old."})
    with AdviceLog(tmp_path / "advice.jsonl", metrics, stage="policy", after=3) as log:
        log.sync()
        assert (tmp_path / "advice.jsonl").read_text() == ""
        log.read(4, {"train/truncated_ratio": 0.9})
    (line,) = (tmp_path / "advice.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 4


def test_the_run_log_has_the_sentence(tmp_path, caplog):
    (tmp_path / "metrics.jsonl").write_text("")
    with (
        caplog.at_level(logging.WARNING, "llmstack"),
        AdviceLog(tmp_path / "advice.jsonl", tmp_path / "metrics.jsonl", stage="policy", after=-1) as log,
    ):
        for step in range(1, 9):
            log.read(step, {"train/unscored_ratio": np.float32(0.5)})
    (message,) = caplog.messages
    assert message.startswith("policy, step 4: The reward leaves 50% of the answers without a score")
