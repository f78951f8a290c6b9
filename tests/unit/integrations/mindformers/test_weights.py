from __future__ import annotations

import numpy as np
import pytest

from llmstack.integrations.mindformers.weights import (
    DEFAULT_LAYOUT,
    FusedLayout,
    from_mindformers,
    interleave,
    names_for,
    separate,
    stored_names,
    to_mindformers,
)
from tests.helpers.models import tiny_config

CONFIG = tiny_config(num_attention_heads=4, num_key_value_heads=2, head_dim=2, hidden_size=4, intermediate_size=3)
LAYER = "model.layers.0."
QKV = "decoder.layers.0.self_attention.linear_qkv.weight"
FC1 = "decoder.layers.0.mlp.linear_fc1.weight"


def labelled(letter, rows):
    """One number a row that says whose row it is: 100 x letter + row."""
    return (100.0 * (ord(letter) - ord("a") + 1) + np.arange(rows))[:, None]


def stored(layers=1):
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.normal(size=shape).astype(np.float32)

    arrays = {"model.embed_tokens.weight": draw(7, 4), "model.norm.weight": draw(4), "lm_head.weight": draw(7, 4)}
    for i in range(layers):
        layer = f"model.layers.{i}."
        for part, rows in (("q", 8), ("k", 4), ("v", 4)):
            arrays[f"{layer}self_attn.{part}_proj.weight"] = draw(rows, 4)
            arrays[f"{layer}self_attn.{part}_proj.bias"] = draw(rows)
        arrays |= {
            f"{layer}input_layernorm.weight": draw(4),
            f"{layer}post_attention_layernorm.weight": draw(4),
            f"{layer}self_attn.q_norm.weight": draw(2),
            f"{layer}self_attn.k_norm.weight": draw(2),
            f"{layer}self_attn.o_proj.weight": draw(4, 8),
            f"{layer}mlp.gate_proj.weight": draw(3, 4),
            f"{layer}mlp.up_proj.weight": draw(3, 4),
            f"{layer}mlp.down_proj.weight": draw(4, 3),
        }
    return arrays


def test_rows_of_a_group_stand_together():
    """Worked by hand: two key/value heads of width 2 with two query heads each."""
    parts = {f"{LAYER}self_attn.{p}_proj.weight": labelled(p, 8 if p == "q" else 4) for p in "qkv"}
    fused = to_mindformers(parts, CONFIG)[QKV][:, 0] - 100.0
    q, k, v = (100.0 * (ord(p) - ord("a")) for p in "qkv")
    wanted = [q + 0, q + 1, q + 2, q + 3, k + 0, k + 1, v + 0, v + 1, q + 4, q + 5, q + 6, q + 7, k + 2, k + 3, v + 2]
    np.testing.assert_array_equal(fused, [*wanted, v + 3])


def test_gate_and_up_rows_take_turns():
    parts = {f"{LAYER}mlp.{p}_proj.weight": labelled(p[0], 3) for p in ("gate", "up")}
    fused = to_mindformers(parts, CONFIG)[FC1][:, 0]
    np.testing.assert_array_equal(fused, [700, 2100, 701, 2101, 702, 2102])


def test_the_other_layouts_put_parts_one_after_the_other():
    whole = FusedLayout(contiguous_attention=True, interleaved_mlp=False)
    arrays, fused = stored(), to_mindformers(stored(), CONFIG, whole)
    queries_keys_values = [arrays[f"{LAYER}self_attn.{p}_proj.weight"] for p in "qkv"]
    np.testing.assert_array_equal(fused[QKV], np.concatenate(queries_keys_values))
    gate_up = [arrays[f"{LAYER}mlp.{p}_proj.weight"] for p in ("gate", "up")]
    np.testing.assert_array_equal(fused[FC1], np.concatenate(gate_up))


@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
def test_round_trip_is_bitwise(contiguous, interleaved):
    layout = FusedLayout(contiguous_attention=contiguous, interleaved_mlp=interleaved)
    arrays = stored(layers=12)
    again = from_mindformers(to_mindformers(arrays, CONFIG, layout), CONFIG, layout)
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)


def test_the_default_layout_is_that_of_the_library_itself():
    """MindFormers' own import of Hugging Face weights, with its names and its concatenations."""
    from llmstack.integrations.mindformers import library

    with library.quietly():
        from mindformers.models.qwen3.modeling_qwen3_train import TrainingQwen3ForCausalLM as Theirs

    model = Theirs.__new__(Theirs)
    arrays = {name: array for name, array in stored(layers=2).items() if not name.endswith(".bias")}
    with library.mcore_mode():
        named = {model.convert_name(name): array for name, array in arrays.items()}
    theirs = {n: a for n, a in named.items() if n.split(".")[-2] not in ("linear_k", "linear_v", "hidden")}
    for name in [*theirs]:
        if ".linear_q." in name:
            k, v = (named[name.replace("linear_q", f"linear_{part}")] for part in "kv")
            theirs |= model.concat_qkv_interleaved(theirs.pop(name), k, v, name, 2, 2, 4)
        elif ".gating." in name:
            up = named[name.replace("gating", "hidden")]
            theirs |= model.concat_linear_fc1_interleaved(theirs.pop(name), up, name, 3)
    ours = to_mindformers(arrays, CONFIG, DEFAULT_LAYOUT)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array)


def test_interleaving_is_undone():
    parts = [np.arange(6.0), np.arange(4.0) + 10]
    fused = interleave(parts, 2)
    np.testing.assert_array_equal(fused, [0, 1, 2, 10, 11, 3, 4, 5, 12, 13])
    for again, part in zip(separate(fused, 2, (3, 2)), parts, strict=True):
        np.testing.assert_array_equal(again, part)


def test_a_name_that_is_not_known_has_no_origin():
    assert stored_names("decoder.layers.0.mlp.router.weight") is None
    assert names_for(["model.layers.0.block_sparse_moe.gate.weight"]) == []
    with pytest.raises(KeyError, match="mtp.weight"):
        from_mindformers({"mtp.weight": np.zeros(1)}, CONFIG)
