from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.stages import KlConfig, PpoConfig, PretrainConfig, RewardConfig, SftConfig, StageConfig


@pytest.fixture(scope="module")
def ppo():
    return load_recipe("quickstart").resolved["stages"]["policy"]


def test_what_each_stage_makes():
    assert {kind.produces for kind in (StageConfig, PretrainConfig, SftConfig, PpoConfig)} == {"language_model"}
    assert RewardConfig.produces == "reward_model"


def test_the_resolved_stage_decodes_as_itself(ppo):
    assert PpoConfig.model_validate(ppo).model_dump(mode="json", by_alias=True) == ppo


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"minibatches": 5}, r"a divisor of batch_rows \(64\), got 5"),
        ({"prompt_buckets": [8, 4, 8]}, r"rising order, got \[8, 4, 8\]. Write \[4, 8\]"),
        ({"truncated": "penalty"}, "expected a score because `truncated` is penalty"),
        ({"missing_eos_score": -1.0}, "expected nothing because `truncated` is bootstrap, got -1"),
    ],
)
def test_options_that_clash_are_refused(ppo, change, words):
    with pytest.raises(ValidationError, match=words):
        PpoConfig.model_validate({**ppo, **change})


def test_a_penalty_with_its_score_is_fine(ppo):
    assert PpoConfig.model_validate({**ppo, "truncated": "penalty", "missing_eos_score": -1}).missing_eos_score == -1


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


def test_each_field_is_described():
    for kind in (PretrainConfig, SftConfig, RewardConfig, PpoConfig, KlConfig):
        assert all(field.description for field in kind.model_fields.values())
