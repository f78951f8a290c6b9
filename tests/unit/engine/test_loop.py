"""The loop against a stage in numpy: straight, stopped, killed, damaged and stuck runs."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from llmstack.engine.loop import Clock, Intervals, fit
from llmstack.engine.protocol import StepReport
from llmstack.errors import Interrupted, RunHalted, StepUndone
from tests.unit.engine.fake_stage import INTERVALS, FakeStage, stage_folder

TIME_FIELDS = {"time", "tokens_per_second"}


def lines(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in TIME_FIELDS} for row in rows]


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = stage_folder(tmp_path_factory.mktemp("straight"))
    return folder, fit(FakeStage(), folder, INTERVALS)


def assert_same_run(folder, straight_folder):
    assert lines(folder.metrics) == lines(straight_folder.metrics)
    assert folder.samples.read_text() == straight_folder.samples.read_text()
    assert folder.rows.read_text() == straight_folder.rows.read_text()
    assert np.array_equal(np.load(folder.final / "weights.npy"), np.load(straight_folder.final / "weights.npy"))


def test_straight_run_logs_evaluates_and_saves(straight):
    folder, result = straight
    rows = {row["step"]: row for row in lines(folder.metrics)}
    logged = {step for step, row in rows.items() if "train/loss" in row}
    evaluated = {step for step, row in rows.items() if "eval/loss" in row}
    assert logged == {1, 3, 6, 9, 12, 15, 18, 20}
    assert evaluated == {0, 5, 10, 15, 20}
    assert rows[6]["tokens"] == 48 and rows[6]["train/lr"] == 0.05 and rows[6]["train/skipped_steps"] == 0
    assert [path.name for path in sorted(folder.checkpoints.iterdir())] == ["step_00000016", "step_00000020"]
    assert [json.loads(line)["step"] for line in folder.samples.read_text().splitlines()] == [0, 5, 10, 15, 20]
    assert result.steps == 20 and result.tokens == 160
    assert result.metrics["train/loss_first"] == rows[1]["train/loss"]
    assert result.metrics["train/loss"] == rows[20]["train/loss"]
    assert result.metrics["eval/loss_first"] == rows[0]["eval/loss"] == 4.0
    assert result.metrics["eval/loss"] == rows[20]["eval/loss"] < 1.0
    assert folder.result == result or folder.result.metrics == result.metrics


def test_rows_of_every_step_are_written_down_unless_told_not_to(straight, tmp_path):
    folder, _ = straight
    written = [json.loads(line) for line in folder.rows.read_text().splitlines()]
    assert written == [{"step": step, "rows": {"data": [8 * step, 8 * step + 1]}} for step in range(1, 21)]
    quiet = stage_folder(tmp_path)
    fit(FakeStage(total_steps=2), quiet, replace(INTERVALS, rows=False))
    assert not quiet.rows.exists()


def test_log_line_holds_the_mean_since_the_last_one(tmp_path):
    losses = {1: 10.0, 2: 1.0, 3: 2.0, 4: 4.0, 5: 5.0}

    class Known(FakeStage):
        def step(self, index):
            self.cursor += 1
            return StepReport({"train/loss": losses[index]}, tokens=1, gauges={"train/lr": float(index)})

    folder = stage_folder(tmp_path)
    fit(Known(total_steps=5), folder, INTERVALS)
    rows = {row["step"]: row for row in lines(folder.metrics)}
    assert [rows[step]["train/loss"] for step in (1, 3, 5)] == [10.0, 1.5, 4.5]
    assert rows[5]["train/lr"] == 5.0


def test_progress_shows_what_the_stage_says(tmp_path, caplog):
    class Shown(FakeStage):
        def step(self, index):
            self.cursor += 1
            return StepReport({"train/score": index, "train/kl": 0.5}, tokens=1, shown=("train/score", "train/none"))

    with caplog.at_level(logging.INFO, "llmstack"):
        fit(Shown(total_steps=4), stage_folder(tmp_path), INTERVALS)
    # the window holds step 4 alone: the line before was at step 3
    assert any(message.startswith("fake 4/4: score 4.0000, none -, ") for message in caplog.messages)


@pytest.mark.parametrize("stop_at", [1, 2, 4, 7, 13, 19])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_and_the_next_run_goes_on_exactly(tmp_path, straight, stop_at, number):
    folder = stage_folder(tmp_path)
    stage = FakeStage(on_step=lambda index: index == stop_at and os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as stopped:
        fit(stage, folder, INTERVALS)
    assert stopped.value.exit_status == 128 + number
    assert stage.indices[-1] == stop_at
    assert signal.getsignal(number) is before
    again = FakeStage()
    fit(again, stage_folder(tmp_path), INTERVALS)
    assert again.indices == list(range(stop_at + 1, 21))
    assert_same_run(folder, straight[0])


class Undoing(FakeStage):
    """Gives up in a step after it has moved the cursor, and can put that back; a signal may come before it does."""

    def __init__(self, at, *, number=None, **options):
        super().__init__(**options)
        self.at, self.number = at, number

    def step(self, index):
        if index == self.at:
            self.cursor += 1
            if self.number is not None:
                os.kill(os.getpid(), self.number)
            raise StepUndone("the scorer is down")
        return super().step(index)

    def undo_step(self):
        self.cursor -= 1


@pytest.mark.parametrize("at", [1, 7, 9])
@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_a_step_that_gives_up_is_undone_and_what_came_before_it_is_saved(tmp_path, straight, at, number):
    """Step 9 follows one that has a checkpoint already."""
    folder = stage_folder(tmp_path)
    expected = (StepUndone, "the scorer is down") if number is None else (Interrupted, "interrupted by SIGTERM")
    with pytest.raises(expected[0], match=expected[1]):
        fit(Undoing(at, number=number), folder, INTERVALS)
    saved = sorted(path.name for path in folder.checkpoints.glob("step_*"))
    assert saved[-1:] == ([f"step_{at - 1:08d}"] if at > 1 else [])
    again = FakeStage()
    fit(again, stage_folder(tmp_path), INTERVALS)
    assert again.indices[0] == at
    assert_same_run(folder, straight[0])


def test_finished_stage_takes_no_step_again(tmp_path, straight):
    folder = stage_folder(tmp_path)
    first = fit(FakeStage(), folder, INTERVALS)
    again = FakeStage()
    second = fit(again, stage_folder(tmp_path), INTERVALS)
    assert again.indices == []
    assert second.metrics == first.metrics and (second.steps, second.tokens) == (first.steps, first.tokens)
    assert_same_run(folder, straight[0])


def test_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path, straight, caplog):
    folder = stage_folder(tmp_path)

    def stop(index):
        if index == 14:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fit(FakeStage(on_step=stop), folder, INTERVALS)
    newest = folder.checkpoints / "step_00000012" / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(bytes(content))
    again = FakeStage()
    with caplog.at_level(logging.WARNING, "llmstack"):
        fit(again, stage_folder(tmp_path), INTERVALS)
    assert again.indices[0] == 9
    assert "step_00000012 passed over: model.safetensors has changed" in caplog.text
    assert_same_run(folder, straight[0])


@pytest.mark.parametrize("attempt", range(3))
def test_kill_at_any_moment_then_resume_equals_the_straight_run(tmp_path, straight, attempt):
    random = np.random.default_rng(attempt)
    command = [sys.executable, "-m", "tests.unit.engine.fake_stage", str(tmp_path), "20", "0.01"]
    for _ in range(2):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (tmp_path / "metrics.jsonl").exists():
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 0.3))
        process.kill()
        process.wait()
    subprocess.run(command, check=True, capture_output=True)
    assert_same_run(stage_folder(tmp_path), straight[0])


def test_second_signal_ends_the_process_at_once(tmp_path):
    command = [sys.executable, "-m", "tests.unit.engine.fake_stage", str(tmp_path), "20", "60"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while not (tmp_path / "samples.jsonl").exists() or not (tmp_path / "samples.jsonl").read_text():
            time.sleep(0.02)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 143
    finally:
        process.kill()


def test_skipped_steps_are_counted_and_left_out_of_the_mean(tmp_path):
    folder = stage_folder(tmp_path)
    result = fit(FakeStage(bad_steps=(4, 7, 8)), folder, INTERVALS)
    rows = {row["step"]: row for row in lines(folder.metrics)}
    assert result.metrics["train/skipped_steps"] == 3
    assert rows[6]["train/skipped_steps"] == 1 and rows[6]["train/loss"] is not None


def test_window_without_a_finite_value_is_null(tmp_path):
    folder = stage_folder(tmp_path)
    fit(FakeStage(bad_steps=(2, 3)), folder, INTERVALS)
    assert {row["step"]: row for row in lines(folder.metrics)}[3]["train/loss"] is None


def test_more_skipped_steps_in_a_row_than_allowed_halt_the_run(tmp_path):
    stage = FakeStage(bad_steps=(2, 3, 5, 6, 7))
    with pytest.raises(RunHalted, match="step 7: 3 steps in a row .* max_skipped_steps = 2"):
        fit(stage, stage_folder(tmp_path), INTERVALS)
    assert stage.indices[-1] == 7


def test_skipped_in_a_row_is_remembered_across_a_resume(tmp_path):
    stage = FakeStage(bad_steps=(4, 5, 6), on_step=lambda index: index == 5 and os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        fit(stage, stage_folder(tmp_path), INTERVALS)
    with pytest.raises(RunHalted, match="step 6"):
        fit(FakeStage(bad_steps=(4, 5, 6)), stage_folder(tmp_path), INTERVALS)


def test_intervals_come_from_the_config():
    class Amount:
        def __init__(self, amount):
            self.amount = amount

    class Config:
        log_every, eval_every, save_every = Amount(1), Amount(2), Amount(3)
        keep_checkpoints, max_skipped_steps, log_rows = 4, 5, False

    assert Intervals.of(Config()) == Intervals(1, 2, 3, 4, 5, False)


def test_clock_counts_building_the_stage(tmp_path):
    clock = Clock()
    time.sleep(0.05)
    assert fit(FakeStage(total_steps=1), stage_folder(tmp_path), INTERVALS, since=clock).wall_seconds >= 0.05


def test_a_meter_of_utilisation_adds_to_the_lines_of_training(tmp_path):
    folder, seen = stage_folder(tmp_path), []

    def meter(tokens_per_second):
        seen.append(tokens_per_second)
        return {"mfu": 0.5}

    fit(FakeStage(total_steps=3), folder, replace(INTERVALS, log=1), utilisation=meter)
    rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    timed = [row for row in rows if "tokens_per_second" in row]
    assert [row["mfu"] for row in timed] == [0.5] * 3 and [row["tokens_per_second"] for row in timed] == seen
    assert all("mfu" not in row for row in rows if row not in timed)
