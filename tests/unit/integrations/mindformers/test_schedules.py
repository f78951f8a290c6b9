from __future__ import annotations

import math

import pytest

from llmstack.config.optim import OptimConfig
from llmstack.integrations.mindformers.schedules import _cell
from llmstack.optim.schedules import learning_rate
from tests.tolerances import F32_ATOL

TOTAL = 20
NAMES = {
    "ConstantWarmUpLR": {"final_ratio": 1.0},
    "LinearWithWarmUpLR": {"final_ratio": 0.0},
    "CosineWithWarmUpLR": {"final_ratio": 0.1},
    "PolynomialWithWarmUpLR": {"final_ratio": 0.1},
    "WarmUpStableDecayLR": {"final_ratio": 0.1, "decay_ratio": 0.25},
}


def optim(name, warmup, **keys):
    schedule = {"name": f"mindformers:{name}", "warmup": f"{warmup} steps", **NAMES[name], **keys}
    numbers = {"lr": 2.0, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0}
    return OptimConfig.model_validate({"name": "adamw", "schedule": schedule, **numbers})


def rates(name, warmup, steps=TOTAL):
    return [learning_rate(optim(name, warmup), step, TOTAL) for step in range(1, steps + 1)]


def oracle(name, warmup, step):
    """The shares as MindFormers documents them, of a trainer whose first step is step 0."""
    t = step - 1
    if warmup and t < warmup:
        return t / warmup
    left = (TOTAL - t) / (TOTAL - warmup)
    return {
        "ConstantWarmUpLR": 1.0,
        "LinearWithWarmUpLR": left,
        "CosineWithWarmUpLR": 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (1 - left))),
        "PolynomialWithWarmUpLR": 0.1 + 0.9 * left,
        "WarmUpStableDecayLR": 1.0 - 0.9 * max(0.0, (t - 15) / 5),
    }[name]


@pytest.mark.parametrize("warmup", [0, 4])
@pytest.mark.parametrize("name", NAMES)
def test_each_step_has_the_rate_of_the_library(name, warmup):
    for step, rate in enumerate(rates(name, warmup), start=1):
        assert rate == pytest.approx(2.0 * oracle(name, warmup, step), abs=F32_ATOL), step


@pytest.mark.parametrize("warmup", [0, 4])
@pytest.mark.parametrize("name", NAMES)
def test_rates_are_finite_and_not_negative_also_past_the_end(name, warmup):
    found = rates(name, warmup, TOTAL + 30)
    assert all(math.isfinite(rate) and 0 <= rate <= 2.0 + F32_ATOL for rate in found)
    assert set(found[TOTAL:]) == {found[TOTAL - 1]}


def test_the_library_itself_falls_below_zero_past_the_end():
    """Why a step past the end is never asked for: if this fails the guard can go."""
    from mindspore import Tensor

    cell = _cell("WarmUpStableDecayLR", TOTAL, 0, (("lr_end", 0.1), ("decay_start_steps", 15)))
    assert float(cell.construct(Tensor(TOTAL + 10.0))) < 0
