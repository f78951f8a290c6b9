from __future__ import annotations

import json

import numpy as np
import pytest
from mindspore import Tensor
from safetensors.numpy import load_file, save_file

from llmstack.config.lora import LoraConfig
from llmstack.errors import UserError
from llmstack.models import adapters
from llmstack.models.adapter_files import read_adapter_config
from llmstack.models.checkpoint_io import build_causal, build_scalar, load_weights, save_model
from llmstack.models.weights import export_arrays, share_parameters
from tests.helpers.cells import run
from tests.helpers.models import rows, tiny_config
from tests.tolerances import EXACT, F32_ATOL

TOKENS = rows(((5, 4), (9,)), 9, seed=3)


def config(**changes):
    options = {"rank": 3, "alpha": 6.0, "dropout": 0.0, "target_modules": ("q_proj", "v_proj", "down_proj")}
    return LoraConfig(**options | changes)


def moved(model, seed=0):
    """Every trained parameter shifted at random."""
    rng = np.random.default_rng(seed)
    for parameter in model.trainable_params():
        shift = rng.normal(0.0, 0.1, parameter.shape)
        parameter.set_data(Tensor((parameter.asnumpy() + shift).astype(np.float32)))
    return model


def test_only_adapters_are_trained_and_the_first_step_starts_at_the_base():
    base, model = build_causal(tiny_config(), seed=1), build_causal(tiny_config(), seed=1)
    adapters.put_on_adapters(model, config(), seed=2)
    trained = export_arrays(model, trained_only=True)
    assert len(trained) == 2 * 3 * 2 and all(".updates." in name for name in trained)
    assert all(p.name == name for name, p in model.parameters_and_names())
    np.testing.assert_allclose(run(model, *TOKENS), run(base, *TOKENS), rtol=0, atol=EXACT)


def test_a_view_of_the_frozen_weights_is_the_base_whatever_the_adapters_learn():
    model = build_causal(tiny_config(tie_word_embeddings=True), seed=1)
    view = build_causal(model.config, seed=None)
    share_parameters(view, model)
    assert view.trunk.embedding is model.trunk.embedding and view.head.weight is model.trunk.embedding
    adapters.put_on_adapters(model, config(), seed=2)
    before = run(view, *TOKENS)
    moved(model)
    assert np.abs(run(model, *TOKENS) - before).max() > 0.1
    np.testing.assert_allclose(run(view, *TOKENS), before, rtol=0, atol=EXACT)
    frozen = build_causal(model.config, seed=1)
    np.testing.assert_allclose(before, run(frozen, *TOKENS), rtol=0, atol=EXACT)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), ("all-linear",), ("*.layers.1.*", "o_proj")])
def test_merged_weights_compute_the_same_and_the_model_stays(targets, dora, tmp_path):
    model = build_causal(tiny_config(), seed=1)
    adapters.put_on_adapters(model, config(target_modules=targets, dora=dora), seed=2)
    moved(model)
    before = export_arrays(model)
    save_model(model, tmp_path)
    plain = build_causal(tiny_config(), seed=None)
    load_weights(plain, tmp_path)
    np.testing.assert_allclose(run(plain, *TOKENS), run(model, *TOKENS), rtol=0, atol=F32_ATOL)
    for name, array in export_arrays(model).items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("build", [build_causal, build_scalar])
def test_an_adapter_folder_round_trips(build, dora, tmp_path):
    options = config(dora=dora, rslora=True, target_modules=("all-linear",))
    model = build(tiny_config(), seed=1)
    adapters.put_on_adapters(model, options, seed=2)
    moved(model)
    adapters.save_adapter(model, tmp_path, options, base="base")
    read = read_adapter_config(tmp_path)
    assert read.adapter == str(tmp_path) and (read.rank, read.alpha, read.dora, read.rslora) == (3, 6.0, dora, True)
    again = build(tiny_config(), seed=1)
    adapters.put_on_adapters(again, read, seed=9)
    ours, theirs = export_arrays(model), export_arrays(again)
    assert list(ours) == list(theirs)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])


def test_patterns_and_what_they_are_saved_as(tmp_path):
    options = config(target_modules=("*.layers.1.mlp.*", "k_proj"))
    model = build_causal(tiny_config(), seed=1)
    adapters.put_on_adapters(model, options, seed=2)
    names = {name for name, _, _ in adapters.updates(model)}
    assert names == {
        *(f"model.layers.{i}.self_attn.k_proj" for i in (0, 1)),
        *(f"model.layers.1.mlp.{name}_proj" for name in ("gate", "up", "down")),
    }
    adapters.save_adapter(model, tmp_path, options, base=None)
    saved = json.loads((tmp_path / "adapter_config.json").read_text())
    assert saved["target_modules"] == sorted(names)


def test_a_target_that_names_nothing_is_refused():
    with pytest.raises(UserError, match=r"lora.target_modules: expected all-linear, one of q_proj, .* got 'query'"):
        adapters.put_on_adapters(build_causal(tiny_config(), seed=1), config(target_modules=("query",)), seed=0)


def test_an_adapter_that_does_not_fit_is_refused(tmp_path):
    model = build_causal(tiny_config(), seed=1)
    adapters.put_on_adapters(model, config(), seed=2)
    adapters.save_adapter(model, tmp_path, config(), base=None)
    path = tmp_path / "adapter_model.safetensors"
    tensors = load_file(path)
    tensors.pop("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight")
    save_file(tensors, path)
    with pytest.raises(UserError, match="missing: base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"):
        adapters.load_adapter(model, tmp_path)


def test_a_folder_of_other_options_is_refused(tmp_path):
    model = build_causal(tiny_config(), seed=1)
    adapters.put_on_adapters(model, config(), seed=2)
    adapters.save_adapter(model, tmp_path, config(), base=None)
    with pytest.raises(UserError, match=r"lora.adapter: expected an adapter with the stage's rank 4, alpha 7.0, got"):
        adapters.put_on_adapters(
            build_causal(tiny_config(), seed=1), config(adapter=str(tmp_path), rank=4, alpha=7.0), seed=2
        )
