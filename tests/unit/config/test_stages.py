from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.online import KlConfig
from llmstack.config.ppo import PpoConfig
from llmstack.config.stages import PretrainConfig, RewardConfig, SftConfig, StageConfig


def test_what_each_stage_makes():
    assert {kind.produces for kind in (StageConfig, PretrainConfig, SftConfig, PpoConfig)} == {"language_model"}
    assert RewardConfig.produces == "reward_model"


@pytest.mark.parametrize(
    ("buckets", "fixed"), [([8, 4, 96], r"\[4, 8, 96\]"), ([8], r"\[8, 96\]"), ([8, 128], r"\[8, 96\]")]
)
def test_length_buckets_rise_up_to_the_row_length(buckets, fixed):
    reward = load_recipe("quickstart").resolved["stages"]["rm"] | {"seq_len": 96}
    with pytest.raises(ValidationError, match=rf"rising order up to seq_len \(96\), got .*Write {fixed}"):
        RewardConfig.model_validate({**reward, "length_buckets": buckets})
    assert RewardConfig.model_validate({**reward, "length_buckets": [8, 96]}).length_buckets == (8, 96)


def test_rows_of_a_step_count_as_a_product_where_nothing_else_does():
    stages = load_recipe("quickstart").config.stages
    rows = {name: stage.batch_rows * stage.accumulate for name, stage in stages.items()}
    assert {name: stage.step_rows for name, stage in stages.items()} == rows | {"policy": None}


def test_each_field_is_described():
    for kind in (PretrainConfig, SftConfig, RewardConfig, PpoConfig, KlConfig):
        assert all(field.description for field in kind.model_fields.values())
