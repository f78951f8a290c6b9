from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

from llmstack.errors import UserError
from llmstack.integrations.mindformers.models import on_mindformers, rotary_angles
from llmstack.integrations.mindformers.twin import row_origins, stored_arrays
from llmstack.models.checkpoint_io import build_causal, build_scalar, load_weights, save_model
from llmstack.models.hf_config import read_config
from llmstack.models.weights import export_arrays
from llmstack.registry import MODELS
from tests.helpers.cells import Differentiated, run
from tests.helpers.models import FAMILY_CHANGES, rows, tiny_config, vary_norms
from tests.tolerances import F32_ATOL, OTHER_NETWORK_ATOL

PACKED = rows([[5, 7], [9], [3, 2, 6]], 16)
LEFT_PADDED = rows([[4, 7], [11], [3, 2, 6]], 16, pad_left=3)


def native(build=build_causal, **changes):
    model = build(tiny_config(**changes), seed=1)
    vary_norms(model)
    return model


def shake(model, seed=3):
    """Move every weight as training would."""
    rng = np.random.default_rng(seed)
    for parameter in model.trainable_params():
        moved = parameter.asnumpy() + rng.normal(0, 0.05, parameter.shape)
        parameter.set_data(Tensor(moved.astype(np.float32)))


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def pair(request):
    ours = native(tie_word_embeddings=request.param)
    return ours, on_mindformers(ours)


@pytest.mark.parametrize("batch", [PACKED, LEFT_PADDED], ids=["packed", "left padded"])
def test_logits_equal_those_of_our_network(pair, batch):
    """Pads included: they see pads only, in both networks."""
    ours, theirs = pair
    np.testing.assert_allclose(run(theirs, *batch), run(ours, *batch), atol=OTHER_NETWORK_ATOL)


@pytest.mark.parametrize("name", ["llama_linear", "llama3", "mistral_window", "qwen2", "qwen3"])
def test_each_family_has_its_logits(name, tmp_path):
    """Stretched frequencies, a window, biases and norms of the queries."""
    ours = native(num_hidden_layers=1, **FAMILY_CHANGES[name])
    shake(ours)
    before = stored_arrays(ours)
    theirs = on_mindformers(ours)
    np.testing.assert_allclose(run(theirs, *PACKED), run(ours, *PACKED), atol=OTHER_NETWORK_ATOL)
    after = stored_arrays(theirs.native())
    assert after.keys() == before.keys()
    for key, array in before.items():
        np.testing.assert_array_equal(after[key], array)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("llama_biases", "expected weights that MindFormers' network has, got model.layers.0.mlp.down_proj.bias"),
        ("qwen3_biases", "got model.layers.0.self_attn.o_proj.bias of the family qwen3. Write `provider: native`"),
        ("llama_yarn", "expected rotary positions that only turn the heads"),
    ],
)
def test_what_the_network_cannot_compute_is_refused(name, message):
    with pytest.raises(UserError, match=message):
        on_mindformers(native(num_hidden_layers=1, **FAMILY_CHANGES[name]))


def test_the_native_model_follows(pair):
    ours, theirs = pair
    shake(theirs)
    assert theirs.native() is ours
    np.testing.assert_allclose(run(theirs, *PACKED), run(ours, *PACKED), atol=OTHER_NETWORK_ATOL)


def test_trained_are_the_weights_of_the_network_alone(pair):
    ours, theirs = pair
    assert all(name.startswith("gpt.") for name, _ in theirs.parameters_and_names())
    sizes = [sum(p.size for p in model.trainable_params()) for model in (ours, theirs)]
    assert sizes[0] == sizes[1]


def test_folders_go_both_ways(pair, tmp_path):
    _, theirs = pair
    save_model(theirs, tmp_path)
    again = build_causal(read_config(tmp_path), seed=9)
    load_weights(again, tmp_path)
    reloaded = on_mindformers(again)
    before, after = export_arrays(theirs), export_arrays(reloaded)
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_scores_and_gradients_equal_those_of_our_network():
    ours = native(build_scalar, num_hidden_layers=1)
    theirs = on_mindformers(ours)
    weights = np.random.default_rng(4).normal(size=PACKED[0].shape)
    score, _, gradients = Differentiated(ours, 3, wrt=())(PACKED, (weights,))
    their_score, _, their_gradients = Differentiated(theirs, 3, wrt=())(PACKED, (weights,))
    np.testing.assert_allclose(their_score[0], score[0], atol=F32_ATOL)
    # the gradients, row by row where the native model has them
    origins = row_origins({n.removeprefix("gpt."): g.shape for n, g in their_gradients.items()}, ours.config)
    for weight in MODELS.get("llama").weight_maps(ours.config):
        if weight.name in gradients:
            parts = [origins[stored] for stored in weight.stored]
            full = "" if weight.name == "score.weight" else "gpt."
            found = np.concatenate([their_gradients[full + name][part_rows] for name, part_rows in parts])
            np.testing.assert_allclose(found, gradients[weight.name], atol=OTHER_NETWORK_ATOL, err_msg=weight.name)


def test_far_positions_keep_their_digits():
    """A float32 angle of 4000 radians would be off by 1e-4."""
    model = native(max_position_embeddings=4096, num_hidden_layers=1)
    angles = rotary_angles(model)
    exact = np.arange(4096)[:, None] * 10000.0 ** (-np.arange(0, 6, 2) / 6)
    np.testing.assert_allclose(np.exp(1j * angles.astype(np.float32)), np.exp(1j * exact), atol=F32_ATOL)
