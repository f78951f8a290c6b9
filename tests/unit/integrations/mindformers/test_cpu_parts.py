from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llmstack.integrations.mindformers.cpu_parts import GroupedCoreAttention, GroupedSelfAttention, layer_spec
from llmstack.nn.composed import HIDDEN_SCORE
from tests.helpers.cells import eager, run
from tests.tolerances import F32_ATOL

T, B, H, K, E = 5, 2, 4, 2, 3


def oracle(query, key, value, visible):
    """Head by head, query by query, in float64."""
    out = np.zeros((T, B, H, E))
    for b in range(B):
        for head in range(H):
            for t in range(T):
                scores = np.array([query[t, b, head] @ key[s, b, head // (H // K)] for s in range(T)]) / np.sqrt(E)
                weights = np.exp(scores - scores.max()) * visible[b, 0, t]
                out[t, b, head] = (weights / weights.sum()) @ value[:, b, head // (H // K)]
    return out.reshape(T, B, H * E)


def test_attention_equals_the_oracle():
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(T, B, heads, E)) for heads in (H, K, K))
    visible = np.tril(rng.random((B, 1, T, T)) < 0.7)
    visible[..., np.arange(T), np.arange(T)] = True
    cell = GroupedCoreAttention(SimpleNamespace(kv_channels=E, num_query_groups=K), layer_number=1)
    with eager():
        ours = run(cell, query, key, value, np.where(visible, 0.0, HIDDEN_SCORE))
    np.testing.assert_allclose(ours, oracle(query, key, value, visible), atol=F32_ATOL)


def test_the_layer_is_made_of_these_parts():
    spec = layer_spec(qk_norm=False).submodules
    assert spec.self_attention.module is GroupedSelfAttention
    assert spec.self_attention.submodules.core_attention is GroupedCoreAttention


def test_keys_are_not_copied_for_every_query_head():
    assert GroupedSelfAttention._repeat_kv(None, "keys", 4) == "keys"
