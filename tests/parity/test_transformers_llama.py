"""Our folders in transformers and theirs in ours: logits, scores and gradients of PyTorch's Llama."""

from __future__ import annotations

import numpy as np
import pytest

from llmstack.models.checkpoint_io import build_causal, build_scalar, load_weights, read_config, save_model
from tests.helpers.cells import Differentiated, run
from tests.helpers.models import oracle_weights, rows, tiny_config, vary_norms
from tests.tolerances import F32_ATOL, F32_RTOL

torch = pytest.importorskip("torch", reason="needs the [parity] extra")
transformers = pytest.importorskip("transformers", reason="needs the [parity] extra")

pytestmark = pytest.mark.parity

LENGTHS = (9, 6, 7)
T = 9


def _model(build, **changes):
    model = build(tiny_config(**changes), seed=4)
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


@pytest.mark.parametrize("pad_left", [False, True], ids=["right_padded", "left_padded"])
@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": True}, {"num_key_value_heads": 4}], ids=str)
def test_our_folder_gives_the_same_logits_there(changes, pad_left, tmp_path):
    model = _model(build_causal, **changes)
    save_model(model, tmp_path, max_shard_bytes=6000)
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    ours_in, theirs_in, real = _batch(pad_left)
    with torch.no_grad():
        expected = theirs(**theirs_in).logits.numpy()
    np.testing.assert_allclose(run(model, *ours_in)[real], expected[real], rtol=0, atol=F32_ATOL)


def test_our_folder_is_taken_whole_without_a_word(tmp_path):
    save_model(_model(build_causal), tmp_path, eos_ids=(3, 5), pad_id=3)
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert isinstance(theirs, transformers.LlamaForCausalLM)
    assert not any(report.values()), report
    assert theirs.generation_config.eos_token_id == [3, 5] and theirs.config.pad_token_id == 3
    assert theirs.dtype == torch.float32


def test_our_reward_model_scores_the_same_there(tmp_path):
    model = _model(build_scalar)
    # pads must be told from tokens by their id there: one that no row holds
    tokens, positions, segments = _batch(pad_left=False)[0]
    tokens = np.where(segments > 0, tokens % 36, 36).astype(np.int32)
    save_model(model, tmp_path, pad_id=36)
    theirs = transformers.LlamaForSequenceClassification.from_pretrained(tmp_path, attn_implementation="eager")
    with torch.no_grad():
        mask = torch.from_numpy(segments.astype(np.int64))
        expected = theirs(input_ids=torch.from_numpy(tokens.astype(np.int64)), attention_mask=mask).logits[:, 0].numpy()
    values = run(model, tokens, positions, segments)
    last = values[np.arange(len(LENGTHS)), np.array(LENGTHS) - 1]
    np.testing.assert_allclose(last, expected, rtol=0, atol=F32_ATOL)


@pytest.mark.parametrize("tied", [False, True])
def test_their_folder_gives_the_same_logits_here(tied, tmp_path):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=20,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=6,
        intermediate_size=28,
        vocab_size=37,
        max_position_embeddings=64,
        rope_theta=500.0,
        initializer_range=0.3,
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    theirs = transformers.LlamaForCausalLM(config)
    theirs.save_pretrained(tmp_path, max_shard_size="10KB")
    ours = build_causal(read_config(tmp_path), seed=0)
    load_weights(ours, tmp_path)
    ours_in, theirs_in, real = _batch(pad_left=True)
    with torch.no_grad():
        expected = theirs(**theirs_in).logits.numpy()
    np.testing.assert_allclose(run(ours, *ours_in)[real], expected[real], rtol=0, atol=F32_ATOL)


def test_gradients_are_theirs(tmp_path):
    model = _model(build_causal)
    save_model(model, tmp_path)
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    ours_in, theirs_in, real = _batch(pad_left=True)
    weights = np.random.default_rng(0).normal(size=(*real.shape, 37)).astype(np.float32) * real[..., None]
    (theirs(**theirs_in).logits * torch.from_numpy(weights)).sum().backward()
    _, _, gradients = Differentiated(model, 3, wrt=())(ours_in, (weights,))
    for name, array in gradients.items():
        dict(model.parameters_and_names())[name].set_data(type(model.trunk.embedding)(array))
    for name, ours in oracle_weights(model).items():
        expected = theirs.get_parameter(name).grad.numpy()
        scale = np.abs(expected).max()
        np.testing.assert_allclose(ours / scale, expected / scale, rtol=F32_RTOL, atol=F32_ATOL, err_msg=name)
