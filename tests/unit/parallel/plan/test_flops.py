from __future__ import annotations

import pytest

from llmstack.config.lora import LoraConfig
from llmstack.parallel.plan.flops import Flops, flops_per_token, forward, generation, mean_keys, mfu, training
from llmstack.parallel.plan.inventory import tensors_of
from tests.helpers.plans import PUBLISHED, model_of, published, small
from tests.reference import planning
from tests.tolerances import F64_RTOL

SIZES = (16, 2, 8, 4, 4, 24, 50)


@pytest.mark.parametrize("window", [None, 5, 100])
def test_a_row_costs_what_its_matrix_products_cost(window):
    model = model_of(SIZES)
    found = forward(model, "language", 12, mean_keys(12, window), 3)
    weights, attention = planning.forward_flops(SIZES, 12, 3, window)
    assert found.matmul == pytest.approx(weights, rel=F64_RTOL)
    assert found.attention == pytest.approx(attention, rel=F64_RTOL)


def test_by_hand():
    # one layer, width 2, one head of 2, feed-forward 3, vocabulary 5: 2*6 + 2*2 + 3*2*3 = 34 weights and a head of 10
    model = model_of((2, 1, 1, 1, 2, 3, 5))
    assert forward(model, "language", 1, 4, 1) == Flops(2 * 34 + 2 * 10, 4 * 2 * 4)
    assert forward(model, "scalar", 1, 4, 1).matmul == 2 * 34 + 2 * 2
    assert forward(model, "both", 1, 4, 1).matmul == 2 * 34 + 2 * 12
    assert training(model, "language", 1, 4, 1) == Flops(3 * 88, 3 * 32)


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_is_six_a_parameter_but_for_lookup_norms_and_biases(name):
    model = published(name)
    vectors = sum(spec.size for spec in tensors_of(model, "language") if len(spec.shape) == 1)
    lookup = 0 if model.tie_word_embeddings else model.vocab_size * model.hidden_size
    weights = PUBLISHED[name][3] - vectors - lookup
    found = flops_per_token(model, 4096)
    assert found.matmul == 6.0 * weights
    heads = model.num_hidden_layers * model.num_attention_heads * model.head_dim
    assert found.attention == 6.0 * heads * 4096  # Chowdhery et al. 2022 count 12, for keys that causality hides too


def test_frozen_weights_need_no_gradient_of_their_own():
    model = small()
    lora = LoraConfig(rank=2, alpha=1.0, dropout=0.0, target_modules=("all-linear",))
    once, found = forward(model, "language", 8, 4, 8), training(model, "language", 8, 4, 8, lora)
    adapters = sum(s.size for s in tensors_of(model, "language", lora) if s.group == "adapters")
    assert found == Flops(2 * once.matmul + 6 * adapters * 8, 3 * once.attention)


def test_generation_reads_a_prompt_and_then_one_token_at_a_time():
    model = small()
    found, by_token = generation(model, 3, 8, 4), Flops()
    for i in range(4):
        by_token += forward(model, "language", 3, 8 + i + 0.5, 3)
    reading = forward(model, "language", 3 * 8, mean_keys(8), 3)
    assert found.total == pytest.approx((reading + by_token).total, rel=F64_RTOL)


def test_utilisation_is_a_share_of_all_devices():
    assert mfu(6e12, 4, 3e12) == pytest.approx(0.5, rel=F64_RTOL)
