from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.online import KlConfig
from llmstack.config.ppo import PpoConfig


@pytest.fixture(scope="module")
def ppo():
    return load_recipe("quickstart").resolved["stages"]["policy"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"minibatches": 5}, r"a divisor of batch_rows \(128\), got 5"),
        ({"samples_per_prompt": 3}, r"a divisor of batch_rows \(128\), got 3"),
        ({"prompt_buckets": [8, 4, 8]}, r"rising order, got \[8, 4, 8\]. Write \[4, 8\]"),
        ({"yardsticks": {"score": {"kind": "pep257_style"}}}, "expected names of your own, got \\['score'\\]"),
    ],
)
def test_options_that_clash_are_refused(ppo, change, words):
    with pytest.raises(ValidationError, match=words):
        PpoConfig.model_validate({**ppo, **change})


def test_an_iteration_reads_a_prompt_for_each_group_of_answers(ppo):
    config = PpoConfig.model_validate({**ppo, "samples_per_prompt": 4})
    assert (config.loader_rows, config.step_batches) == (32, 1)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"mode": "adaptive", "target": 1.0}, "because `mode` is adaptive, got nothing"),
        ({"mode": "fixed", "target": 1.0}, "because `mode` is fixed, got 1.0"),
        ({"mode": "fixed", "horizon": 5}, "because `mode` is fixed, got 5"),
    ],
)
def test_target_and_horizon_belong_to_adaptive_kl(keys, words):
    with pytest.raises(ValidationError, match=words):
        KlConfig.model_validate({"beta": 0.1, "ceiling": 10.0, **keys})
    adaptive = {"mode": "adaptive", "beta": 0.1, "ceiling": 10.0, "target": 1.0, "horizon": 100}
    assert KlConfig.model_validate(adaptive).horizon == 100
