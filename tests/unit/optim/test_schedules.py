"""Schedules against the oracle, by hand, and at their edges."""

from __future__ import annotations

import subprocess
import sys

import pytest

from llmstack.config.optim import OptimConfig
from llmstack.optim.schedules import learning_rate
from tests.reference import schedules as reference
from tests.tolerances import F64_ATOL


def optim(name, *, warmup, final_ratio=1.0, decay_ratio=None, lr=1.0):
    schedule = {"name": name, "warmup": f"{warmup} steps", "final_ratio": final_ratio, "decay_ratio": decay_ratio}
    return OptimConfig(
        name="adamw", lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, max_grad_norm=1.0, schedule=schedule
    )


CASES = {
    "constant": (dict(), lambda s, t, w: reference.constant(s, t, w)),
    "linear": (dict(final_ratio=0.1), lambda s, t, w: reference.linear(s, t, w, 0.1)),
    "cosine": (dict(final_ratio=0.1), lambda s, t, w: reference.cosine(s, t, w, 0.1)),
    "wsd": (dict(final_ratio=0.0, decay_ratio=0.3), lambda s, t, w: reference.wsd(s, t, w, 0.0, 0.3)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("total", "warmup"), [(100, 10), (100, 0), (7, 3), (1, 0), (5, 9), (40, 35)])
def test_equals_the_oracle(name, total, warmup):
    options, oracle = CASES[name]
    config = optim(name, warmup=warmup, lr=3e-4, **options)
    for step in range(1, total + 3):
        wanted = 3e-4 * oracle(step - 1, total, warmup)  # the oracle counts from 0
        assert learning_rate(config, step, total) == pytest.approx(wanted, abs=F64_ATOL)


def test_warm_up_by_hand():
    rates = [learning_rate(optim("constant", warmup=4, lr=8.0), step, 10) for step in range(1, 7)]
    assert rates == [2.0, 4.0, 6.0, 8.0, 8.0, 8.0]


def test_linear_by_hand():
    rates = [learning_rate(optim("linear", warmup=2, final_ratio=0.0), step, 6) for step in range(1, 8)]
    assert rates == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]


def test_cosine_by_hand():
    rates = [learning_rate(optim("cosine", warmup=0, final_ratio=0.5), step, 4) for step in (1, 3, 5)]
    assert rates == pytest.approx([1.0, 0.75, 0.5], abs=F64_ATOL)


def test_wsd_by_hand():
    config = optim("wsd", warmup=2, final_ratio=0.0, decay_ratio=0.4)
    rates = [learning_rate(config, step, 10) for step in range(1, 13)]
    assert rates == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0, 0], abs=F64_ATOL)


def test_no_rate_is_zero_or_negative_inside_the_run():
    for name, (options, _) in CASES.items():
        rates = [learning_rate(optim(name, warmup=5, **options), step, 50) for step in range(1, 51)]
        assert min(rates) > 0 and max(rates) == 1.0


def test_steps_count_from_one():
    with pytest.raises(ValueError, match="from 1, got 0"):
        learning_rate(optim("constant", warmup=0), 0, 10)


def test_needs_no_mindspore():
    code = "import sys, llmstack.optim.schedules; sys.exit('mindspore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
