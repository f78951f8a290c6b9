from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.optim import OptimConfig, ScheduleConfig


def schedule(**keys: object) -> ScheduleConfig:
    return ScheduleConfig.model_validate({"name": "cosine", "warmup": "0 steps", "final_ratio": 0.1, **keys})


@pytest.mark.parametrize(
    "keys",
    [
        {"name": "constant", "final_ratio": 1},
        {"name": "linear"},
        {"name": "cosine"},
        {"name": "wsd", "decay_ratio": 0.2},
        {"name": "mindformers:ConstantWarmUpLR", "final_ratio": 1},
        {"name": "mindformers:LinearWithWarmUpLR", "final_ratio": 0},
        {"name": "mindformers:CosineWithWarmUpLR"},
        {"name": "mindformers:PolynomialWithWarmUpLR"},
        {"name": "mindformers:WarmUpStableDecayLR", "decay_ratio": 0.2},
    ],
)
def test_each_schedule_takes_its_keys(keys):
    assert schedule(**keys).name == keys["name"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"name": "constant"}, "expected 1 because the schedule is constant, got 0.1"),
        ({"name": "wsd"}, "because the schedule is wsd, got nothing"),
        ({"name": "linear", "decay_ratio": 0.5}, "expected nothing because the schedule is linear, got 0.5"),
        ({"name": "mindformers:LinearWithWarmUpLR"}, "expected 0 because the schedule is mindformers:Linear"),
        ({"name": "mindformers:PolynomialWithWarmUpLR", "final_ratio": 1}, "expected less than 1 because"),
        ({"name": "mindformers:WarmUpStableDecayLR"}, "because the schedule is mindformers:WarmUp.*, got nothing"),
        ({"name": "mindformers:CosineWithWarmUpLR", "decay_ratio": 0.5}, "expected nothing because"),
        ({"name": "wavy"}, "expected a schedule"),
        ({"warmup": "2 epochs"}, "`epochs` does not fit here"),
    ],
)
def test_no_key_is_ignored(keys, words):
    with pytest.raises(ValidationError, match=words):
        schedule(**keys)


@pytest.mark.parametrize("betas", [[0.9, 1.0], [-0.1, 0.9], [0.9], [0.9, 0.9, 0.9]])
def test_betas_are_two_ratios_below_one(betas):
    keys = {"name": "adamw", "lr": 1, "eps": 1e-8, "weight_decay": 0, "max_grad_norm": 1.0, "schedule": schedule()}
    assert OptimConfig.model_validate({**keys, "betas": [0.0, 0.95]}).betas == (0.0, 0.95)
    with pytest.raises(ValidationError, match="betas"):
        OptimConfig.model_validate({**keys, "betas": betas})
