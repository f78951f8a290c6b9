from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.ppo import PpoConfig

TEXT = {"data": {"source": "stdlib_docs", "split": "train"}, "coef": 0.5, "seq_len": 128, "batch_rows": 2}


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
        ({"scores": {"clip": 0.0}}, "scores.clip"),
        ({"scores": {"normalise": "batch"}}, "scores.normalise"),
        ({"pretraining": TEXT | {"coef": 0.0}}, "pretraining.coef"),
        ({"pretraining": TEXT, "accumulate": 4}, r"batch_rows to be a multiple of accumulate \(4\), got 2"),
        ({"truncated": "mask", "missing_eos_score": -1.0}, "expected nothing because `truncated` is mask"),
        ({"kl": {"mode": "adaptive", "beta": 0.1, "target": 0.0, "horizon": 9, "ceiling": 1.0}}, "kl.target"),
        ({"clip_low": 1.0}, "clip_low"),
        ({"clip_low": 0.0}, "clip_low"),
        ({"clip_high": 0.0}, "clip_high"),
        ({"clip_high": 1.0}, "clip_high"),
    ],
)
def test_options_that_clash_are_refused(ppo, change, words):
    with pytest.raises(ValidationError, match=words):
        PpoConfig.model_validate({**ppo, **change})


def test_a_penalty_with_its_score_is_fine(ppo):
    assert PpoConfig.model_validate({**ppo, "truncated": "penalty", "missing_eos_score": -1}).missing_eos_score == -1


def test_the_longest_row_may_be_one_of_text(ppo):
    config = PpoConfig.model_validate({**ppo, "pretraining": TEXT})
    assert PpoConfig.model_validate(ppo).longest_row == 88 and config.longest_row == 128
