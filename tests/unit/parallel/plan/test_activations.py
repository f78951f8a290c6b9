from __future__ import annotations

import pytest

from llmstack.parallel.plan.activations import in_flight, kv_cache_bytes, mask_bytes, token_bytes
from tests.helpers.plans import layout, model_of, one_cpu, published, small
from tests.reference.planning import one_forward_one_backward
from tests.tolerances import F64_RTOL

SIZES = (16, 4, 8, 4, 4, 32, 64)
"""D 16, H E 32, K E 16, F 32."""


def native(**changes):
    return token_bytes(small(**changes), "language", one_cpu(), fused=False)


def fused(**options):
    return token_bytes(small(), "language", layout(**options), fused=True)


def test_native_by_hand():
    # input, norm, stream, norm: 4*16; projection 64, heads 32; gate, up and product: 3*32; float32, 8 log-partitions
    assert native().layer == 4 * (4 * 16 + 64 + 32 + 3 * 32) + 4 * 8
    assert native().input == 4 * 16 and native().cheap == 4 * (2 * 16 + 32)
    assert native().backward == 4 * (3 * 32 + 2 * 16)
    assert native().ends == 4 * (2 * 16 + 4)
    assert native().logit_row == 2 * 4 * 64


def test_fused_by_hand():
    # bfloat16: 4*16, turned q k v 64, heads 32 twice, 3*32; 64 bytes of statistics a head, 8 of the norms
    assert fused().layer == 2 * (4 * 16 + 64 + 2 * 32 + 3 * 32) + 64 * 8 + 8
    assert fused().logit_row == 3 * 4 * 64


def test_norms_of_heads_keep_the_projection_once_more():
    family = {"family": "qwen3", "qk_norm": True}
    assert native(**family).layer - native().layer == 4 * 64


def test_tensor_ranks_share_heads_and_gates_and_the_stream_only_in_sequence():
    whole, cut, sequence = fused(), fused(tensor=4), fused(tensor=4, sequence_parallel=True)
    stream = 2 * 4 * 16 + 8
    assert cut.layer == pytest.approx(stream + (whole.layer - stream) / 4, rel=F64_RTOL)
    assert sequence.layer == pytest.approx((whole.layer - 8) / 4 + 8, rel=F64_RTOL)
    assert cut.logit_row == whole.logit_row / 4


def test_recomputation_keeps_less_and_makes_it_again():
    sizes = fused()
    assert [sizes.kept(how) for how in ("none", "selective", "full")] == [
        sizes.layer, sizes.layer - sizes.cheap, sizes.input,
    ]  # fmt: skip
    for how in ("none", "selective", "full"):
        assert sizes.kept(how) + sizes.made_again(how) == sizes.layer + sizes.backward


def test_a_scalar_head_has_no_logits_and_adapters_keep_their_inner_numbers():
    assert token_bytes(small(), "scalar", one_cpu(), fused=False).logit_row == 0
    assert token_bytes(small(), "language", one_cpu(), fused=False, rank=3).layer - native().layer == 7 * 3 * 4


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 2), (2, 5), (4, 4), (4, 9), (4, 16)])
def test_ranks_of_a_pipeline_hold_as_many_as_one_that_is_run(stages, micro_batches):
    _, held = one_forward_one_backward(stages, micro_batches)
    parallel = layout(pipeline=stages, micro_batches=micro_batches)
    assert [in_flight(parallel, stage) for stage in range(stages)] == held


def test_an_interleaved_pipeline_holds_more():
    # Korthikanti et al. 2022, section 4.2.3: (1 + (p-1)/(p v)) L layers on the first of p ranks, each with L/p
    assert in_flight(layout(pipeline=4, micro_batches=16, interleave=2), 0) == pytest.approx(4 * (1 + 3 / 8))


def test_the_cache_of_a_published_model():
    # Kwon et al. 2023, section 3: OPT-13B takes 800 KB a token, 2 * 5120 * 40 * 2 bytes
    opt = model_of((5120, 40, 40, 40, 128, 20480, 50272))
    assert kv_cache_bytes(opt, 1, 1, 2) == 800 * 1024
    assert kv_cache_bytes(published("Meta-Llama-3-8B"), 2, 10, 2) == 2 * 10 * 2 * 8 * 128 * 32 * 2


def test_the_mask_grows_with_the_square_of_a_row():
    assert mask_bytes(2, 8, 1) == 128 and mask_bytes(2, 8, 4) == 32
