"""The mechanics of the monitor: series, windows, and advice given once until a trouble is over."""

from __future__ import annotations

import math

import numpy as np
import pytest

from llmstack.engine.health import FIRST, WINDOW, Finding, Monitor, Readings, all_of, correlation


def readings(values, name="a"):
    seen = Readings()
    for step, value in enumerate(values):
        seen.add(step, name, value)
    return seen


def test_the_first_readings_stay_and_the_latest_move_on():
    seen = readings(range(100))
    assert seen.first("a") == np.mean(range(FIRST))
    assert seen.window("a").tolist() == list(range(100 - WINDOW, 100))
    assert seen.latest("a", 3).tolist() == [97, 98, 99]
    assert seen.latest("a", 3, before=2).tolist() == [95, 96, 97]
    assert seen.mean("a", 2, before=1) == 97.5
    assert seen.steps_between("a", 8) == 7


def test_what_is_not_there_yet_is_nan():
    seen = readings([1.0, 2.0])
    assert math.isnan(seen.first("a")) and math.isnan(seen.mean("a", 3)) and seen.latest("a", 2, before=1).size == 0
    assert math.isnan(seen.mean("b", 1)) and seen.window("b").size == 0 and seen.steps_between("b", 2) == 0
    assert seen.knows("a") and not seen.knows("b")


@pytest.mark.parametrize("hole", [None, math.nan, math.inf])
def test_null_readings_take_a_place_and_count_in_no_mean(hole):
    seen = readings([1.0, hole, 3.0, 5.0])
    assert seen.first("a") == 3.0
    assert seen.mean("a", 3) == 4.0
    assert np.isnan(seen.latest("a", 3)).tolist() == [True, False, False]
    assert math.isnan(readings([hole, hole]).mean("a", 2))


def test_correlation_by_hand():
    # deviations (-1, 0, 1) and (-1, 1, 0): 1 / 2
    assert correlation(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 1.0])) == pytest.approx(0.5)
    assert correlation(np.array([1.0, np.nan, 2.0, 3.0]), np.array([2.0, 9.0, 4.0, 6.0])) == pytest.approx(1.0)
    assert correlation(np.ones(3), np.arange(3.0)) == 0.0
    assert math.isnan(correlation(np.arange(2.0), np.arange(2.0)))
    assert math.isnan(correlation(np.arange(4.0), np.arange(3.0)))


def test_all_signs_must_be_known_and_there():
    assert all_of(2.0, 0.5) == 0.5
    assert math.isnan(all_of(2.0, math.nan)) and math.isnan(all_of(math.nan, 0.1))


def high(seen: Readings) -> Finding:
    return Finding(seen.mean("a", 1), f"a is {seen.mean('a', 1):g}.")


def test_advice_comes_once_until_the_trouble_is_over():
    monitor = Monitor([high])
    values = [0.5, 1.0, 1.5, 0.9, 1.1, 0.7, 0.9, 1.2]
    advice = [item for step, value in enumerate(values) for item in monitor.read(step, {"a": value})]
    # 0.9 is not yet over and 0.7 is: the second advice comes at 1.2 alone
    assert [(item.step, item.name, item.sentence) for item in advice] == [
        (1, "high", "a is 1."),
        (7, "high", "a is 1.2."),
    ]
    assert monitor.present == {"high"}


def test_an_unknown_severity_changes_nothing():
    monitor = Monitor([high])
    monitor.read(0, {"a": 2.0})
    assert monitor.read(1, {"a": None}) == [] and monitor.present == {"high"}
    assert monitor.read(2, {"a": 2.0}) == []


@pytest.mark.parametrize("cut", [0, 1, 3, 6])
def test_replayed_lines_leave_the_state_of_lines_read(cut):
    lines = [{"step": step, "a": value} for step, value in enumerate([0.5, 1.0, 0.7, None, 1.3, 0.9, 0.6, 1.0])]
    straight, resumed = Monitor([high]), Monitor([high])
    expected = [item for line in lines for item in straight.read(line["step"], line)]
    resumed.replay(lines[:cut])
    rest = [item for line in lines[cut:] for item in resumed.read(line["step"], line)]
    assert rest == [item for item in expected if item.step >= cut]
    assert resumed.present == straight.present
