from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.model import ModelConfig


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
