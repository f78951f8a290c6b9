from __future__ import annotations

import pytest

from llmstack.errors import UserError
from llmstack.models.causal_lm import CausalLM
from llmstack.models.families import LLAMA
from llmstack.models.scalar_model import ScalarModel
from llmstack.registry import MODELS
from tests.helpers.models import FAMILY_CHANGES, tiny_config


def test_llama_is_registered_under_its_model_type():
    assert MODELS.get("llama") is LLAMA
    assert LLAMA.name == "llama"


def test_fused_weights_are_cut_by_heads():
    maps = {weight.name: weight for weight in LLAMA.weight_maps(tiny_config())}
    qkv = maps["trunk.blocks.1.attention.qkv.weight"]
    assert qkv.rows == (24, 12, 12)
    assert [name.split(".")[-2] for name in qkv.stored] == ["q_proj", "k_proj", "v_proj"]
    assert maps["trunk.blocks.0.mlp.gate_up.weight"].rows == (28, 28)


@pytest.mark.parametrize("changes", [{}, *FAMILY_CHANGES.values()], ids=["plain", *FAMILY_CHANGES])
def test_every_parameter_of_both_models_is_mapped_once(changes):
    config = tiny_config(**changes | {"tie_word_embeddings": False, "num_hidden_layers": 1})
    family = MODELS.get(config.family)
    maps = {weight.name: weight for weight in family.weight_maps(config)}
    stored = [name for weight in maps.values() for name in weight.stored]
    assert len(stored) == len(set(stored))
    named = {**_shapes(family.causal(config, seed=0)), **_shapes(family.scalar(config, seed=0))}
    assert set(maps) == set(named)
    for name, shape in named.items():
        assert sum(maps[name].rows) == shape[0]


def test_builds_both_kinds():
    assert isinstance(LLAMA.causal(tiny_config(num_hidden_layers=1), seed=0), CausalLM)
    assert isinstance(LLAMA.scalar(tiny_config(num_hidden_layers=1), seed=0), ScalarModel)


@pytest.mark.parametrize("build", [LLAMA.causal, LLAMA.scalar])
def test_an_unknown_vocabulary_is_refused(build):
    with pytest.raises(UserError, match="model.vocab_size: expected a number, got null"):
        build(tiny_config(vocab_size=None), seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qk_norm": True}, "model.qk_norm: expected False, the only value of family llama, got True"),
        (
            {"attention_bias": True},
            "model.attention_out_bias: expected True, the only value of family llama, got False",
        ),
        ({"family": "qwen2"}, "model.attention_bias: expected True, the only value of family qwen2, got False"),
        ({"sliding_window": 8}, "model.sliding_window: expected None, the only value of family llama, got 8"),
        ({"family": "qwen3", "qk_norm": True, "mlp_bias": True}, "model.mlp_bias: expected False"),
    ],
)
def test_a_feature_the_family_does_not_have_is_refused(changes, message):
    config = tiny_config(**changes)
    with pytest.raises(UserError, match=message):
        MODELS.get(config.family).causal(config, seed=0)


def _shapes(model):
    return {name: parameter.shape for name, parameter in model.parameters_and_names()}
