from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from llmstack.errors import UserError
from llmstack.models.checkpoint_io import (
    build_causal,
    build_scalar,
    load_weights,
    save_model,
)
from llmstack.models.hf_config import folder_kind, read_config
from llmstack.models.weights import export_arrays
from tests.helpers.models import oracle_weights, tiny_config, vary_norms


def _same(first, second):
    first, second = export_arrays(first), export_arrays(second)
    assert list(first) == list(second)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


def _edit_config(folder, **changes):
    path = folder / "config.json"
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in values.items() if value != "absent"}))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("build", [build_causal, build_scalar])
def test_round_trip_is_bitwise(build, tied, tmp_path):
    config = tiny_config(tie_word_embeddings=tied)
    model = build(config, seed=1)
    vary_norms(model)
    save_model(model, tmp_path)
    assert read_config(tmp_path) == config
    again = build(read_config(tmp_path), seed=2)
    load_weights(again, tmp_path)
    _same(model, again)


def test_stored_names_and_cuts_are_those_of_hugging_face(tmp_path):
    model = build_causal(tiny_config(), seed=1)
    save_model(model, tmp_path)
    stored, expected = load_file(tmp_path / "model.safetensors"), oracle_weights(model)
    assert set(stored) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(stored[name], array)


def test_shards_round_trip(tmp_path):
    model = build_causal(tiny_config(), seed=1)
    save_model(model, tmp_path, max_shard_bytes=4000)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    again = build_causal(tiny_config(), seed=2)
    load_weights(again, tmp_path)
    _same(model, again)


def test_bfloat16_is_stored_rounded_and_declared(tmp_path):
    model = build_causal(tiny_config(), seed=1)
    save_model(model, tmp_path, dtype="bfloat16")
    assert json.loads((tmp_path / "config.json").read_text())["torch_dtype"] == "bfloat16"
    once = build_causal(tiny_config(), seed=2)
    load_weights(once, tmp_path)
    # rounded numbers are stored without loss
    save_model(once, tmp_path, dtype="bfloat16")
    twice = build_causal(tiny_config(), seed=3)
    load_weights(twice, tmp_path)
    _same(once, twice)


def test_special_tokens_are_written_and_never_left_to_a_default(tmp_path):
    model = build_causal(tiny_config(num_hidden_layers=1), seed=0)
    save_model(model, tmp_path, eos_ids=(3, 5), pad_id=3)
    for file in ("config.json", "generation_config.json"):
        values = json.loads((tmp_path / file).read_text())
        assert (values["eos_token_id"], values["pad_token_id"], values["bos_token_id"]) == ([3, 5], 3, None)
    save_model(model, tmp_path, eos_ids=(3,))
    assert json.loads((tmp_path / "config.json").read_text())["eos_token_id"] == 3


def test_config_json_says_what_the_model_is(tmp_path):
    save_model(build_scalar(tiny_config(num_hidden_layers=1), seed=0), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["architectures"] == ["LlamaForSequenceClassification"]
    assert values["model_type"] == "llama" and values["id2label"] == {"0": "score"}
    assert values["rope_theta"] == 10000.0 and values["tie_word_embeddings"] is False
    assert "family" not in values
    assert folder_kind(tmp_path) == "scalar"
    save_model(build_causal(tiny_config(num_hidden_layers=1), seed=0), tmp_path)
    assert folder_kind(tmp_path) == "causal"
    _edit_config(tmp_path, architectures=["LlamaModel"])
    with pytest.raises(UserError, match=r"architectures: expected LlamaForCausalLM or .*, got \['LlamaModel'\]"):
        folder_kind(tmp_path)


def test_a_dtype_that_is_none(tmp_path):
    with pytest.raises(UserError, match="dtype: expected one of float32, float16, bfloat16, got 'int8'"):
        save_model(build_causal(tiny_config(num_hidden_layers=1), seed=0), tmp_path, dtype="int8")


def test_a_scalar_model_starts_from_the_trunk_of_a_language_model(tmp_path):
    causal, scalar = build_causal(tiny_config(), seed=1), build_scalar(tiny_config(), seed=2)
    head = scalar.score.weight.asnumpy().copy()
    save_model(causal, tmp_path)
    load_weights(scalar, tmp_path, trunk_only=True)
    np.testing.assert_array_equal(scalar.score.weight.asnumpy(), head)
    ours = export_arrays(scalar)
    for name, array in export_arrays(causal).items():
        if name != "head.weight":
            np.testing.assert_array_equal(ours[name], array)
    with pytest.raises(UserError, match="missing: score.weight; unexpected: lm_head.weight"):
        load_weights(scalar, tmp_path)


def _stored(tmp_path, **model_changes):
    config = tiny_config(num_hidden_layers=1, **model_changes)
    model = build_causal(config, seed=1)
    save_model(model, tmp_path)
    return model, load_file(tmp_path / "model.safetensors")


def test_every_misfit_is_listed_and_nothing_is_loaded(tmp_path):
    model, stored = _stored(tmp_path)
    del stored["model.norm.weight"]
    stored["model.layers.0.self_attn.q_proj.bias"] = np.zeros(24, np.float32)
    stored["lm_head.weight"] = np.zeros((5, 20), np.float32)
    save_file(stored, tmp_path / "model.safetensors")
    before = export_arrays(model)
    with pytest.raises(UserError) as error:
        load_weights(model, tmp_path)
    message = str(error.value)
    assert "missing: model.norm.weight" in message
    assert "unexpected: model.layers.0.self_attn.q_proj.bias" in message
    assert "wrong shape: lm_head.weight (5, 20) instead of (37, 20)" in message
    for name, array in export_arrays(model).items():
        np.testing.assert_array_equal(array, before[name])


def test_a_tied_head_stored_twice_is_accepted_only_when_equal(tmp_path):
    model, stored = _stored(tmp_path, tie_word_embeddings=True)
    stored["lm_head.weight"] = stored["model.embed_tokens.weight"].copy()
    save_file(stored, tmp_path / "model.safetensors")
    load_weights(model, tmp_path)
    stored["lm_head.weight"][0, 0] += 1
    save_file(stored, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="unexpected: lm_head.weight"):
        load_weights(model, tmp_path)


def test_old_rotary_buffers_are_no_weights(tmp_path):
    model, stored = _stored(tmp_path)
    stored["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(3, np.float32)
    save_file(stored, tmp_path / "model.safetensors")
    load_weights(model, tmp_path)
