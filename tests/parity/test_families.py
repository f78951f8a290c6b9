"""Our folders in transformers and theirs in ours, for every family: logits, scores, gradients and greedy tokens."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from llmstack.generation.pool import GeneratorPool
from llmstack.models.checkpoint_io import build_causal, build_scalar, load_weights, save_model
from llmstack.models.hf_config import read_config
from llmstack.models.weights import export_arrays, import_arrays
from tests.helpers.cells import Differentiated, run
from tests.helpers.models import FAMILY_CHANGES, rows, tiny_config, vary_norms
from tests.tolerances import PARITY_GRADIENT_TOL, PARITY_LOGITS_ATOL

torch = pytest.importorskip("torch", reason="needs the [parity] extra")
transformers = pytest.importorskip("transformers", reason="needs the [parity] extra")

pytestmark = pytest.mark.parity

LENGTHS = (9, 6, 7)
T = 9
NEW_TOKENS = 64
CASES = {
    "llama": {},
    "llama_tied": {"tie_word_embeddings": True},
    "llama_ungrouped": {"num_key_value_heads": 4},
    **FAMILY_CHANGES,
}


def _model(build, **changes):
    model = build(tiny_config(**{"max_position_embeddings": 128} | changes), seed=4)
    vary_norms(model)
    return model


def _batch(pad_left):
    """Rows of one document each, padded on one side, as both sides want them."""
    parts = [rows(((n,),), T, pad_left=T - n if pad_left else 0, seed=n) for n in LENGTHS]
    tokens, positions, segments = (np.concatenate(part) for part in zip(*parts, strict=True))
    theirs = {
        "input_ids": torch.from_numpy(tokens.astype(np.int64)),
        "attention_mask": torch.from_numpy(segments.astype(np.int64)),
        "position_ids": torch.from_numpy(positions.astype(np.int64)),
    }
    return (tokens, positions, segments), theirs, segments > 0


def _theirs(folder):
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True
    )
    assert not any(report.values()), report
    return model


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    """``(ours, theirs, folder)`` with the same weights, written by us."""
    folder = tmp_path_factory.mktemp(request.param)
    ours = _model(build_causal, **CASES[request.param])
    save_model(ours, folder, eos_ids=(3, 5), pad_id=3, max_shard_bytes=6000)
    return ours, _theirs(folder), folder


def test_logits_and_gradients_are_theirs(pair, tmp_path):
    ours, theirs, _ = pair
    for pad_left in (False, True):
        ours_in, theirs_in, real = _batch(pad_left)
        weights = np.random.default_rng(0).normal(size=(*real.shape, 37)).astype(np.float32) * real[..., None]
        theirs.zero_grad()
        expected = theirs(**theirs_in).logits
        (expected * torch.from_numpy(weights)).sum().backward()
        (logits,), _, gradients = Differentiated(ours, 3, wrt=())(ours_in, (weights,))
        np.testing.assert_allclose(logits[real], expected.detach().numpy()[real], rtol=0, atol=PARITY_LOGITS_ATOL)
    holder = build_causal(ours.config, seed=0)
    import_arrays(holder, gradients, source="gradients")
    save_model(holder, tmp_path)
    for name, gradient in load_file(tmp_path / "model.safetensors").items():
        expected = theirs.get_parameter(name).grad.numpy()
        scale = np.abs(expected).max()
        np.testing.assert_allclose(gradient / scale, expected / scale, rtol=0, atol=PARITY_GRADIENT_TOL, err_msg=name)


def test_greedy_tokens_with_a_cache_are_theirs(pair):
    ours, theirs, _ = pair
    prompt = [7, 11, 2, 30, 8, 19]
    pool = GeneratorPool(ours, eos_ids=())
    ((answer,),) = pool.answer([prompt], max_new_tokens=NEW_TOKENS, temperature=0.0, rng=np.random.default_rng(0))
    theirs.generation_config.eos_token_id = None
    expected = theirs.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        pad_token_id=3,
    )
    assert list(answer.tokens) == expected[0, len(prompt) :].tolist()


def test_their_folder_comes_back_bitwise(pair, tmp_path):
    ours, theirs, _ = pair
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="10KB")
    config = read_config(tmp_path / "theirs")
    assert config == ours.config
    again = build_causal(config, seed=0)
    load_weights(again, tmp_path / "theirs")
    save_model(again, tmp_path / "again")
    third = build_causal(read_config(tmp_path / "again"), seed=1)
    load_weights(third, tmp_path / "again")
    first = export_arrays(ours)
    for model in (again, third):
        for name, array in export_arrays(model).items():
            np.testing.assert_array_equal(array, first[name], err_msg=name)


def test_special_tokens_and_dtype_are_theirs(pair):
    _, _, folder = pair
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert theirs.generation_config.eos_token_id == [3, 5] and theirs.config.pad_token_id == 3
    assert theirs.dtype == torch.float32
    assert json.loads((folder / "config.json").read_text())["architectures"] == [type(theirs).__name__]


@pytest.mark.parametrize("case", ["llama", "mistral_window", "qwen2", "qwen3"])
def test_our_reward_model_scores_the_same_there(case, tmp_path):
    model = _model(build_scalar, **CASES[case])
    # pads must be told from tokens by their id there: one that no row holds
    tokens, positions, segments = _batch(pad_left=False)[0]
    tokens = np.where(segments > 0, tokens % 36, 36).astype(np.int32)
    save_model(model, tmp_path, pad_id=36)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, attn_implementation="eager")
    with torch.no_grad():
        mask = torch.from_numpy(segments.astype(np.int64))
        expected = theirs(input_ids=torch.from_numpy(tokens.astype(np.int64)), attention_mask=mask).logits[:, 0].numpy()
    values = run(model, tokens, positions, segments)
    last = values[np.arange(len(LENGTHS)), np.array(LENGTHS) - 1]
    np.testing.assert_allclose(last, expected, rtol=0, atol=PARITY_LOGITS_ATOL)
