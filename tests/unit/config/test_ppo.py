from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.ppo import PpoConfig


@pytest.fixture(scope="module")
def ppo():
    return load_recipe("quickstart").resolved["stages"]["policy"]


def test_the_resolved_stage_decodes_as_itself(ppo):
    assert PpoConfig.model_validate(ppo).model_dump(mode="json", by_alias=True) == ppo


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"truncated": "penalty"}, "expected a score because `truncated` is penalty"),
        ({"missing_eos_score": -1.0}, "expected nothing because `truncated` is bootstrap, got -1"),
        ({"critic": {"coef": 0.1}}, "expected nothing because `trunk` is separate, got 0.1"),
        ({"critic": {"trunk": "shared", "lr": 0.1}}, "expected None because `trunk` is shared, got 0.1"),
        ({"critic": {"trunk": "shared", "init_from": "rm"}}, "expected None because `trunk` is shared, got rm"),
        ({"critic": {"trunk": "shared", "warmup_iterations": 2}}, "expected 0 because `trunk` is shared, got 2"),
    ],
)
def test_options_that_clash_are_refused(ppo, change, words):
    with pytest.raises(ValidationError, match=words):
        PpoConfig.model_validate({**ppo, **change})


def test_a_penalty_with_its_score_is_fine(ppo):
    assert PpoConfig.model_validate({**ppo, "truncated": "penalty", "missing_eos_score": -1}).missing_eos_score == -1
