from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.models.gguf.config import config_json, llama3_factors
from llmstack.models.gguf.reader import open_gguf
from tests.helpers.gguf_files import SIZES, model_file
from tests.tolerances import F64_ATOL


def read(tmp_path, arch="llama", **changes):
    model_file(tmp_path / "m.gguf", arch, **changes)
    return config_json(open_gguf(tmp_path / "m.gguf"))


def test_sizes_have_hugging_faces_names(tmp_path):
    values = read(tmp_path)
    assert {key: values[key] for key in SIZES} == SIZES
    assert values["model_type"] == "llama" and values["architectures"] == ["LlamaForCausalLM"]
    assert values["tie_word_embeddings"] is True and values["rope_scaling"] is None
    assert values["attention_bias"] is False and values["mlp_bias"] is False
    assert values["hidden_act"] == "silu"


@pytest.mark.parametrize(("arch", "name"), [("qwen2", "Qwen2ForCausalLM"), ("qwen3", "Qwen3ForCausalLM")])
def test_other_architectures(arch, name, tmp_path):
    values = read(tmp_path, arch, tied=False)
    assert (values["model_type"], values["architectures"]) == (arch, [name])
    assert values["tie_word_embeddings"] is False
    assert ("attention_bias" in values) == (arch == "qwen3")  # all of Qwen 2 have one and do not say so


def test_the_vocabulary_is_that_of_the_embedding(tmp_path):
    weights = model_file(tmp_path / "m.gguf")
    assert config_json(open_gguf(tmp_path / "m.gguf"))["vocab_size"] == len(weights["model.embed_tokens.weight"])


def test_left_out_keys_follow_from_others(tmp_path):
    keys = ("attention.key_length", "attention.value_length", "attention.head_count_kv", "rope.freq_base")
    values = read(tmp_path, metadata={f"llama.{key}": None for key in keys})
    assert (values["head_dim"], values["num_key_value_heads"], values["rope_theta"]) == (16, 4, 10000.0)


def test_biases_are_seen(tmp_path):
    values = read(tmp_path, tensors={"blk.0.attn_q.bias": np.zeros(64, np.float32)})
    assert values["attention_bias"] is True and values["mlp_bias"] is False


@pytest.mark.parametrize(
    ("metadata", "scaling"),
    [
        ({"type": "none"}, None),
        ({"type": "linear", "factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        (
            {"type": "yarn", "factor": 4.0, "original_context_length": 32, "yarn_beta_fast": 16.0, "finetuned": True},
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16.0},
        ),
    ],
)
def test_scaled_rotary_positions(metadata, scaling, tmp_path):
    values = read(tmp_path, metadata={f"llama.rope.scaling.{key}": value for key, value in metadata.items()})
    assert values["rope_scaling"] == scaling


def test_llama3_factors_by_hand():
    # theta 1: every wavelength is 2 pi, far below 8192 / 4: nothing is stretched
    assert llama3_factors(1.0, 4, 8.0).tolist() == [1.0, 1.0]
    # E 2: the one wavelength is 2 pi; E 4 with theta (8192 / (2 pi) / 2) ** 2: the second is 4096, between 2048 and
    # 8192: 2 turns in the original context, a third of the way from 1 to 4: 1 / ((2/3) / 8 + 1/3) = 2.4
    theta = (8192 / (2 * np.pi) / 2) ** 2
    np.testing.assert_allclose(llama3_factors(theta, 4, 8.0), [1.0, 2.4], rtol=0, atol=F64_ATOL)
    # beyond the original context all of the factor
    assert llama3_factors(1e12, 4, 32.0)[1] == 32.0


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_parameters_are_found_behind_the_stored_factors(factor, tmp_path):
    stored = llama3_factors(500000.0, 16, factor).astype(np.float32)
    changes = {"metadata": {"llama.rope.freq_base": 500000.0}, "tensors": {"rope_freqs.weight": stored}}
    assert read(tmp_path, **changes)["rope_scaling"] == {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


def test_factors_of_one_are_none(tmp_path):
    assert read(tmp_path, tensors={"rope_freqs.weight": np.ones(8, np.float32)})["rope_scaling"] is None


@pytest.mark.parametrize("stored", [np.linspace(1, 8, 8), np.ones(5)])
def test_other_factors_are_refused(stored, tmp_path):
    with pytest.raises(UserError, match="rope_freqs.weight: expected the rotary factors of Llama 3.1"):
        read(tmp_path, tensors={"rope_freqs.weight": stored.astype(np.float32)})


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0}, "got 'longrope'"),
        ({"llama.rope.scaling.type": "linear"}, "expected the metadata key llama.rope.scaling.factor, got none"),
        ({"llama.expert_count": 8}, "llama.expert_count: expected a model without it, got 8"),
        ({"llama.attention.sliding_window": 64}, "llama.attention.sliding_window: expected a model without it, got 64"),
        ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count: expected 16, the width of a head, got 8"),
        ({"llama.attention.head_count": 0}, "expected sizes above 0, got 0 heads"),
        ({"llama.block_count": None}, "expected the metadata key llama.block_count, got none"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon, got none"),
        ({"tokenizer.ggml.tokens": None}, "expected the metadata key tokenizer.ggml.tokens, got none"),
        ({"tokenizer.ggml.tokens": [str(i) for i in range(999)]}, "at most the model's 3.. ids, got one of 999"),
    ],
)
def test_what_it_cannot_be_is_refused(metadata, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read(tmp_path, metadata=metadata)


def test_no_experts_is_no_obstacle(tmp_path):
    assert read(tmp_path, metadata={"llama.expert_count": 0})["hidden_size"] == 64


def test_another_architecture(tmp_path):
    model_file(tmp_path / "m.gguf", "gemma")
    with pytest.raises(UserError, match="general.architecture: expected one of llama, qwen2, qwen3, got 'gemma'"):
        config_json(open_gguf(tmp_path / "m.gguf"))


def test_no_embedding(tmp_path):
    with pytest.raises(UserError, match="expected the matrix token_embd.weight, got none"):
        read(tmp_path, tensors={"token_embd.weight": None})
