from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from llmstack.errors import UserError
from llmstack.models.checkpoint_io import build_causal, build_scalar, save_model
from llmstack.models.model_source import file_source, folder_source, stored_shapes
from tests.helpers.models import tiny_config

FEATURES = [
    {"attention_bias": True, "attention_out_bias": True, "mlp_bias": True},
    {"family": "qwen2", "attention_bias": True},
    {"family": "qwen3", "qk_norm": True},
    {"family": "mistral", "sliding_window": 4},
]
BUILDS = {"causal": build_causal, "scalar": build_scalar}


@pytest.fixture
def folder(tmp_path):
    save_model(build_causal(tiny_config(tie_word_embeddings=True), seed=1), tmp_path, eos_ids=(3,))
    return tmp_path


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(folder, **changes):
    stored = {**load_file(folder / "model.safetensors"), **changes}
    save_file({k: v for k, v in stored.items() if v is not None}, folder / "model.safetensors")


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": True}, *FEATURES], ids=str)
@pytest.mark.parametrize("kind", BUILDS)
def test_shapes_are_those_a_saved_model_has(kind, changes, tmp_path):
    config = tiny_config(**changes)
    save_model(BUILDS[kind](config, seed=0), tmp_path)
    stored = {name: array.shape for name, array in load_file(tmp_path / "model.safetensors").items()}
    assert stored_shapes(config, kind) == stored
    source = folder_source(tmp_path)
    assert [tensor.name for tensor in source.tensors][0] == "model.embed_tokens.weight"
    assert source.num_parameters == sum(np.prod(shape) for shape in stored.values())
    assert source.stored_as == {"F32": source.num_parameters}


def test_a_folder_and_its_one_file_are_the_same_model(folder):
    whole, single = folder_source(folder), file_source(folder / "model.safetensors")
    assert whole.config == single.config == tiny_config(tie_word_embeddings=True)
    for one, other in zip(whole.tensors, single.tensors, strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.read(), other.read())
    assert whole.generation == json.loads((folder / "generation_config.json").read_text())


def test_what_does_not_belong_to_the_model_is_left_out(folder):
    before = json.loads((folder / "config.json").read_text())
    edit_config(folder, auto_map={"AutoModel": "evil.Model"}, _name_or_path="x", dtype="float16")
    assert folder_source(folder).config_json("bfloat16") == before | {"torch_dtype": "bfloat16"}


def test_the_main_dtype_is_that_of_most_parameters(folder):
    assert folder_source(folder).main_dtype == "float32"
    embedding = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    edit_weights(folder, **{"model.embed_tokens.weight": embedding.astype(np.float64)})
    assert folder_source(folder).main_dtype == "float32"
    edit_weights(folder, **{k: v.astype(np.float16) for k, v in load_file(folder / "model.safetensors").items()})
    assert folder_source(folder).main_dtype == "float16"


def test_a_tied_head_stored_twice_is_stored_once(folder):
    embedding = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    edit_weights(folder, **{"lm_head.weight": embedding, "model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(3)})
    names = [tensor.name for tensor in folder_source(folder).tensors]
    assert names.count("model.embed_tokens.weight") == 1
    assert not [name for name in names if name == "lm_head.weight" or name.endswith("inv_freq")]
    edit_weights(folder, **{"lm_head.weight": embedding + 1})
    with pytest.raises(UserError, match="unexpected: lm_head.weight"):
        folder_source(folder)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"model.norm.weight": None}, "missing: model.norm.weight"),
        ({"model.norm.weight": np.ones(7, np.float32)}, r"wrong shape: model.norm.weight \(7,\) instead of \(20,\)"),
        ({"model.norm.weight": np.ones(20, np.int32)}, "expected model.norm.weight in F64, F32, F16, BF16, got I32"),
        ({"more": np.ones(7, np.float32)}, "unexpected: more"),
    ],
)
def test_weights_that_do_not_fit(weights, message, folder):
    edit_weights(folder, **weights)
    with pytest.raises(UserError, match=message):
        folder_source(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 40}, "wrong shape: .*model.embed_tokens.weight"),
        ({"vocab_size": 36}, r"model.embed_tokens.weight \(37, 20\) instead of \(36, 20\)"),
        ({"num_hidden_layers": 10**9}, "expected weights of 1000000000 layers .* got .* tensors in all"),
        ({"model_type": "mamba"}, "model_type: expected one of .*, got 'mamba'"),
        ({"architectures": ["LlamaModel"]}, "architectures: expected LlamaForCausalLM or "),
        ({"architectures": 5}, "architectures: expected LlamaForCausalLM or .*, got 5"),
        ({"rope_scaling": [1]}, "config.json: expected the sizes of a model, got a value of another kind"),
        ({"hidden_size": "wide", "head_dim": None}, "config.json: expected the sizes of a"),
        ({"num_attention_heads": {}, "head_dim": None}, "config.json: expected the sizes of a"),
    ],
)
def test_a_configuration_that_does_not_fit(changes, message, folder):
    edit_config(folder, **changes)
    with pytest.raises(UserError, match=message):
        folder_source(folder)


def test_files_that_are_missing(folder):
    (folder / "config.json").unlink()
    for read, path in ((folder_source, folder), (file_source, folder / "model.safetensors")):
        with pytest.raises(UserError, match="config.json: expected a file, got none"):
            read(path)
