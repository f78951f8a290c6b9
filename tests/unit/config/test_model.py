from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.model import ModelConfig, RopeScaling


@pytest.fixture(scope="module")
def tiny():
    return load_recipe("quickstart").config.model.model_dump()


def test_key_heads_divide_query_heads(tiny):
    assert ModelConfig(**{**tiny, "num_key_value_heads": 2}).num_key_value_heads == 2
    with pytest.raises(
        ValidationError, match=r"expected a divisor of num_attention_heads \(4\), got 3. Choose one of 1, 2, 4."
    ):
        ModelConfig(**{**tiny, "num_key_value_heads": 3})


def test_the_fields_are_those_of_a_hugging_face_config(tiny):
    assert {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"} <= set(tiny)


def test_each_field_is_described():
    assert all(field.description for field in ModelConfig.model_fields.values())


@pytest.mark.parametrize(
    ("scaling", "key", "message"),
    [
        (
            {"rope_type": "llama3", "factor": 8.0},
            "high_freq_factor",
            "expected a number for rope_type llama3, got null",
        ),
        (
            {"rope_type": "linear", "factor": 2.0, "beta_fast": 3.0},
            "beta_fast",
            "expected no beta_fast for rope_type linear",
        ),
        (
            {"rope_type": "yarn", "factor": 2.0},
            "original_max_position_embeddings",
            "expected a number for rope_type yarn",
        ),
        ({"rope_type": "linear", "factor": 0.5}, "factor", "greater than or equal to 1"),
        (
            {
                "rope_type": "llama3",
                "factor": 2.0,
                "low_freq_factor": 4.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            "high_freq_factor",
            "expected more than low_freq_factor",
        ),
    ],
)
def test_stretching_that_makes_no_sense_is_refused(scaling, key, message):
    with pytest.raises(ValidationError) as error:
        RopeScaling(**scaling)
    found = {problem["loc"][-1]: problem["msg"] for problem in error.value.errors()}
    assert message in found[key]
