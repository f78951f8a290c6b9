from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.integrations.mindformers.network import Angles, build_gpt, transformer_config
from llmstack.integrations.mindformers.twin import stored_arrays
from llmstack.models.checkpoint_io import build_causal
from tests.helpers.cells import eager, run
from tests.helpers.models import tiny_config

ONE_LAYER = tiny_config(num_hidden_layers=1)


@pytest.fixture(scope="module")
def stored():
    return list(stored_arrays(build_causal(ONE_LAYER, seed=0)))


def test_the_network_has_exactly_the_weights_of_the_model(stored):
    names = [name for name, _ in build_gpt(ONE_LAYER, stored).parameters_and_names()]
    assert sorted(names) == sorted(
        ["embedding.word_embeddings.weight", "decoder.final_layernorm.weight", "output_layer.weight"]
        + [
            f"decoder.layers.0.{name}.weight"
            for name in (
                "input_layernorm",
                "self_attention.linear_qkv",
                "self_attention.linear_proj",
                "pre_mlp_layernorm",
                "mlp.linear_fc1",
                "mlp.linear_fc2",
            )
        ]
    )


def test_biases_and_norms_of_the_queries_follow_from_the_names(stored):
    layer = "model.layers.0.self_attn."
    more = [f"{layer}{part}_proj.bias" for part in "qkv"] + [f"{layer}{part}_norm.weight" for part in "qk"]
    names = {name for name, _ in build_gpt(ONE_LAYER, stored + more).parameters_and_names()}
    attention = "decoder.layers.0.self_attention."
    assert {f"{attention}linear_qkv.bias", f"{attention}q_layernorm.weight", f"{attention}k_layernorm.weight"} <= names


def test_a_tied_head_and_none_at_all_have_no_weight(stored):
    tied = build_gpt(tiny_config(num_hidden_layers=1, tie_word_embeddings=True), stored[:-1])
    headless = build_gpt(ONE_LAYER, stored, language_head=False)
    for gpt in (tied, headless):
        assert "output_layer.weight" not in dict(gpt.parameters_and_names())


def test_a_weight_the_network_has_no_place_for_is_refused(stored):
    with pytest.raises(UserError, match="got model.layers.0.self_attn.o_proj.bias of the family llama. Write"):
        build_gpt(ONE_LAYER, [*stored, "model.layers.0.self_attn.o_proj.bias"])


def test_a_width_that_the_heads_do_not_divide_is_refused():
    with pytest.raises(UserError, match=r"model.hidden_size: expected a multiple of num_attention_heads \(4\).*got 22"):
        build_gpt(tiny_config(hidden_size=22), [])


@pytest.mark.parametrize("fused", [False, True])
def test_ascend_gets_the_stock_parts(fused):
    config = transformer_config(ONE_LAYER, fused=fused, qk_norm=False, qkv_bias=False)
    assert config.fused_norm is fused and config.use_flash_attention is fused
    assert str(config.compute_dtype) == ("BFloat16" if fused else "Float32")
    assert (config.kv_channels, config.num_query_groups, config.ffn_hidden_size) == (6, 2, 28)


def test_angles_are_looked_up_by_position():
    angles = np.arange(8.0).reshape(4, 2)
    with eager():
        found = run(Angles(angles), np.array([[3, 0, 1], [2, 2, 0]]))
    assert found.shape == (3, 2, 1, 4)
    np.testing.assert_array_equal(found[0, :, 0], [[6, 7, 6, 7], [4, 5, 4, 5]])
    np.testing.assert_array_equal(found[2, :, 0], [[2, 3, 2, 3], [0, 1, 0, 1]])
