from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.model import RopeScaling
from llmstack.errors import UserError
from llmstack.models.gguf.config import llama3_factors
from llmstack.models.gguf.source import gguf_source
from tests.helpers.gguf_files import model_file


@pytest.mark.parametrize("tied", [False, True])
def test_a_whole_model(tied, tmp_path):
    weights = model_file(tmp_path / "m.gguf", tied=tied, quant="Q8_0")
    source, tokenizer = gguf_source(tmp_path / "m.gguf")
    assert source.num_parameters == sum(array.size for array in weights.values())
    vectors = sum(array.size for array in weights.values() if array.ndim == 1)
    assert source.stored_as == {"F32": vectors, "Q8_0": source.num_parameters - vectors}
    assert {tensor.name for tensor in source.tensors} == set(weights)
    assert source.tensors[0].name == "model.embed_tokens.weight"
    assert source.generation == tokenizer.ids == {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    values = source.config_json("float16")
    assert (values["eos_token_id"], values["torch_dtype"]) == (2, "float16")


def test_stretched_positions_reach_the_configuration(tmp_path):
    factors = llama3_factors(5000.0, 16, 8.0).astype(np.float32)
    model_file(tmp_path / "m.gguf", tensors={"rope_freqs.weight": factors})
    assert gguf_source(tmp_path / "m.gguf")[0].config.rope_scaling == RopeScaling(
        rope_type="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 32}
    model_file(tmp_path / "m.gguf", "qwen2", metadata={f"qwen2.rope.scaling.{k}": v for k, v in scaling.items()})
    assert gguf_source(tmp_path / "m.gguf")[0].config.rope_scaling == RopeScaling(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=32
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tensors": {"blk.1.attn_q.weight": np.zeros((32, 64), np.float32)}},
            r"wrong shape: model.layers.1.self_attn.q_proj.weight \(32, 64\) instead of \(64, 64\)",
        ),
        ({"tensors": {"output_norm.weight": None}}, "missing: model.norm.weight"),
        ({"tensors": {"blk.0.ffn_gate_inp.weight": np.zeros((4, 64), np.float32)}}, "unexpected: blk.0.ffn_gate_inp"),
        ({"metadata": {"llama.block_count": 3}}, "missing: model.layers.2"),
        ({"metadata": {"llama.block_count": 10**9}}, "expected weights of 1000000000 layers"),
        ({"metadata": {"llama.attention.head_count_kv": 3}}, "num_key_value_heads: expected a divisor"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message, tmp_path):
    model_file(tmp_path / "m.gguf", **changes)
    with pytest.raises(UserError, match=rf"m\.gguf: .*{message}"):
        gguf_source(tmp_path / "m.gguf")


def test_changed_bytes_are_an_error_or_another_model_never_a_fault(tmp_path):
    model_file(tmp_path / "m.gguf")
    good = (tmp_path / "m.gguf").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for number in range(300):
        content = bytearray(good)
        for place in rng.integers(0, (64, 600, 20000)[number % 3], rng.integers(1, 5)):
            content[place] = rng.choice((0, 1, 127, 255))
        (tmp_path / "bad.gguf").write_bytes(content[: rng.integers(len(good)) if number % 5 == 0 else None])
        try:
            gguf_source(tmp_path / "bad.gguf")
        except UserError as error:
            assert "bad.gguf" in str(error)
            refused += 1
    assert 150 < refused < 300
