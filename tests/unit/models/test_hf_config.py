from __future__ import annotations

import json

import pytest

from llmstack.config.model import RopeScaling
from llmstack.errors import UserError
from llmstack.models.hf_config import config_json, folder_kind, model_config, read_config
from tests.helpers.models import FAMILY_CHANGES, tiny_config


def _write(folder, **changes):
    """A ``config.json`` of a tiny Llama with some keys changed or absent."""
    values = {**config_json(tiny_config(), "causal"), **changes}
    path = folder / "config.json"
    path.write_text(json.dumps({key: value for key, value in values.items() if value != "absent"}))


@pytest.mark.parametrize("changes", FAMILY_CHANGES.values(), ids=FAMILY_CHANGES)
@pytest.mark.parametrize("kind", ["causal", "scalar"])
def test_round_trip(changes, kind):
    config = tiny_config(**changes)
    values = json.loads(json.dumps(config_json(config, kind)))
    assert model_config(values, where="config.json") == config
    assert "family" not in values and "qk_norm" not in values and "attention_out_bias" not in values


def test_llama_biases_are_one_key():
    values = config_json(tiny_config(attention_bias=True, attention_out_bias=True), "causal")
    assert values["attention_bias"] is True
    config = model_config(values, where="config.json")
    assert config.attention_bias and config.attention_out_bias


def test_a_missing_window_of_mistral_is_its_first_one(tmp_path):
    _write(tmp_path, model_type="mistral")
    assert read_config(tmp_path).sliding_window == 4096
    _write(tmp_path, model_type="mistral", sliding_window=None)
    assert read_config(tmp_path).sliding_window is None


def test_a_window_that_is_switched_off_is_none(tmp_path):
    _write(tmp_path, model_type="qwen2", use_sliding_window=False, sliding_window=4096, attention_bias="absent")
    config = read_config(tmp_path)
    assert config.sliding_window is None and config.attention_bias and not config.attention_out_bias


def test_a_stretched_context_in_the_old_and_the_new_form(tmp_path):
    _write(tmp_path, rope_scaling={"type": "linear", "factor": 2})
    assert read_config(tmp_path).rope_scaling == RopeScaling(rope_type="linear", factor=2.0)
    _write(
        tmp_path,
        rope_theta="absent",
        rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5, "attention_factor": None},
    )
    config = read_config(tmp_path)
    # YaRN without its old context means the file's own
    assert config.rope_theta == 5e5 and config.rope_scaling.original_max_position_embeddings == 64


def test_an_architecture_that_is_neither(tmp_path):
    _write(tmp_path, architectures=["LlamaModel"])
    with pytest.raises(UserError, match=r"architectures: expected LlamaForCausalLM or .*, got \['LlamaModel'\]"):
        folder_kind(tmp_path)


@pytest.mark.parametrize("architectures", [5, "LlamaForCausalLM", None, {"LlamaForCausalLM": 1}])
def test_architectures_that_are_no_list(architectures, tmp_path):
    _write(tmp_path, architectures=architectures)
    with pytest.raises(UserError, match="architectures: expected LlamaForCausalLM or "):
        folder_kind(tmp_path)


def test_missing_sizes_take_the_defaults_of_the_format(tmp_path):
    _write(tmp_path, num_key_value_heads="absent", head_dim="absent", rope_theta="absent", hidden_size=24)
    config = read_config(tmp_path)
    assert (config.num_key_value_heads, config.head_dim, config.rope_theta) == (4, 6, 10000.0)


def test_newer_files_keep_theta_under_rope_parameters(tmp_path):
    _write(tmp_path, rope_theta="absent", rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    assert read_config(tmp_path).rope_theta == 5e5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rope_scaling": {"rope_type": "longrope", "factor": 8.0}},
            "rope_scaling.rope_type: Input should be 'linear'",
        ),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 8.0}}, "rope_scaling.rope_type: Input should be 'linear'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor: expected a number for rope_type"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0, "mscale": 0.7}}, "rope_scaling.mscale: Extra inputs"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor: expected 1.0"),
        ({"attention_dropout": 0.1}, "attention_dropout: expected 0.0"),
        ({"hidden_act": "gelu"}, "hidden_act: expected 'silu', the only value implemented for llama, got 'gelu'"),
        (
            {"model_type": "mistral", "attention_bias": True},
            "attention_bias: expected False, the only value of mistral",
        ),
        ({"model_type": "qwen2", "use_sliding_window": True}, "use_sliding_window: expected False"),
        ({"model_type": "qwen3", "layer_types": ["sliding_attention"]}, "layer_types: expected full_attention"),
        (
            {
                "model_type": "mistral",
                "sliding_window": 8,
                "layer_types": ["sliding_attention", "full_attention"],
                "attention_bias": "absent",
            },
            "layer_types: expected sliding_attention in every layer, got full_attention in some",
        ),
        ({"quantization_config": {"bits": 4}}, "quantization_config: expected None"),
        ({"model_type": "mamba"}, "model_type: expected one of .*llama.*, got 'mamba'"),
        ({"model_type": "absent"}, "model_type: expected one of .*llama.*, got None"),
        ({"num_hidden_layers": "absent"}, "expected the sizes of a llama model, got num_hidden_layers: Field required"),
        ({"hidden_size": -4}, "got hidden_size: Input should be greater than 0"),
        ({"hidden_size": "wide", "head_dim": "absent"}, "config.json: expected the sizes of a model, got a value of"),
        ({"rope_scaling": [1]}, "config.json: expected the sizes of a model, got a value of another kind"),
        ({"rope_theta": "big"}, "config.json: expected the sizes of a model, got a value of another kind"),
    ],
)
def test_what_it_cannot_be_is_refused(changes, message, tmp_path):
    _write(tmp_path, **changes)
    with pytest.raises(UserError, match=message):
        read_config(tmp_path)


def test_no_or_broken_config(tmp_path):
    with pytest.raises(UserError, match=r"config.json: expected a file, got none"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config.json: expected JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"config.json: expected JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match=r"expected a JSON object, got list"):
        read_config(tmp_path)
