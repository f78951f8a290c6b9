from __future__ import annotations

import pytest

from llmstack.runtime import compile_count, phases
from llmstack.runtime.compile_count import Compiles
from llmstack.runtime.phases import PhaseTimes


@pytest.fixture
def clock(monkeypatch):
    """Seconds and compiling seconds that the test sets."""
    now = {"time": 0.0, "compiling": 0.0}
    monkeypatch.setattr(phases.time, "perf_counter", lambda: now["time"])
    monkeypatch.setattr(compile_count, "snapshot", lambda: Compiles(0, now["compiling"]))
    return now


def test_phases_add_up_without_compiling(clock):
    times = PhaseTimes()
    for spent, compiling in ((3.0, 2.0), (0.5, 0.0)):
        with times.phase("rollout"):
            clock["time"] += spent
            clock["compiling"] += compiling
    with times.phase("update"):
        clock["time"] += 4.0
    assert times.take() == {"rollout": 1.5, "update": 4.0}
    assert times.take() == {}


def test_a_phase_that_fails_is_counted(clock):
    times = PhaseTimes()
    with pytest.raises(ValueError, match="no"), times.phase("score"):
        clock["time"] += 1.0
        raise ValueError("no")
    assert times.take() == {"score": 1.0}
