"""The counters behind a log line and the summary."""

from __future__ import annotations

import json

import pytest

from llmstack.engine.protocol import StepReport
from llmstack.engine.record import Record


def report(loss, *, skipped=False, **gauges):
    return StepReport({"train/loss": loss, "train/grad_norm": 2 * loss}, tokens=10, gauges=gauges, skipped=skipped)


def test_window_by_hand():
    record = Record()
    record.add_step(report(1.0, lr=0.1), seconds=0.5)
    record.add_step(report(float("nan"), skipped=True, lr=0.2), seconds=0.5)
    record.add_step(report(2.0, lr=0.3), seconds=1.0)
    assert record.recent("train/loss") == 1.5 and record.recent_speed == 15.0
    assert record.take_window() == {
        "train/loss": 1.5,
        "train/grad_norm": 3.0,
        "lr": 0.3,
        "train/skipped_steps": 1,
        "tokens_per_second": 15.0,
    }
    assert record.recent("train/loss") == 1.5 and record.recent_speed == 15.0
    assert record.window == {} and record.step == 3 and record.tokens == 30


def test_first_and_last_values():
    record = Record()
    record.add_evaluation({"eval/loss": 5.0})
    for loss in (4.0, 3.0):
        record.add_step(report(loss), seconds=1.0)
        record.take_window()
    record.add_evaluation({"eval/loss": 2.0, "eval/rate": float("inf")})
    metrics = record.result().metrics
    assert metrics["train/loss_first"] == 4.0 and metrics["train/loss"] == 3.0
    assert metrics["eval/loss_first"] == 5.0 and metrics["eval/loss"] == 2.0
    assert metrics["eval/rate"] is None
    assert "train/grad_norm_first" not in metrics and "tokens_per_second" not in metrics
    assert record.result().tokens_per_second == 10.0


def test_skipped_in_a_row_starts_over_after_a_good_step():
    record = Record()
    for skipped in (True, True, False, True):
        record.add_step(report(1.0, skipped=skipped), seconds=0.0)
    assert record.skipped_in_row == 1 and record.skipped_steps == 3


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_json_round_trip_is_exact(steps):
    record = Record()
    for step in range(steps):
        record.add_step(report(1 / (3 + step), lr=0.1), seconds=0.1)
    record.add_evaluation({"eval/x": float("nan")})
    again = Record.from_json(json.loads(json.dumps(record.to_json(), allow_nan=False)))
    assert again == record


def test_no_step_no_speed():
    assert Record().recent_speed == 0.0 and Record().result().tokens_per_second == 0.0


def test_seconds_of_a_steps_parts_are_logged_but_are_no_result():
    record = Record()
    for spent in (1.0, 3.0):
        record.add_step(StepReport({"train/loss": 1.0}, tokens=1, seconds={"update": spent}), seconds=spent)
    assert record.take_window()["seconds/update"] == 2.0
    assert "seconds/update" not in record.result().metrics
