from __future__ import annotations

import pytest

from llmstack.parallel.plan.communication import gradient_bytes, ring_all_reduce, ring_gather, sent
from llmstack.parallel.plan.work import Network, Pass, Rollout, StageWork
from tests.helpers.plans import layout, model_of, small
from tests.reference import planning
from tests.tolerances import F64_RTOL, UNDIVIDED_RTOL

NETWORK = Network("model", small(), "language", True)
STREAM = 8 * 16 * 16 * 2
"""Bytes of the stream of 8 rows of 16 tokens, width 16, in bfloat16."""


def work(*, train=True, network=NETWORK, calls=1, rollouts=()):
    return StageWork("s", "k", (network,), (Pass(network, train, 8, 16, 16, calls),), rollouts, 1, 1, False)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_a_ring_sends_what_one_that_is_turned_sends(ranks):
    assert ring_all_reduce(24.0, ranks) == pytest.approx(planning.ring_all_reduce(24.0, ranks), rel=F64_RTOL)
    assert ring_gather(24.0, ranks) == 24.0 * (ranks - 1) / ranks


def test_one_device_sends_nothing():
    assert set(sent(work(), layout()).values()) == {0.0}


@pytest.mark.parametrize(("train", "sums"), [(True, 4 * 4 + 2), (False, 4 * 2 + 1)])
def test_tensor_ranks_sum_twice_a_layer_and_direction(train, sums):
    found = sent(work(train=train), layout(tensor=4))
    assert found["tensor"] == pytest.approx(sums * 2 * STREAM * 3 / 4, rel=F64_RTOL)
    assert found["pipeline"] == found["context"] == 0 and found["data"] == 0


def test_full_recomputation_sums_once_more():
    found = sent(work(), layout(tensor=4, recompute="full"))
    assert found["tensor"] == pytest.approx((4 * 6 + 2) * 2 * STREAM * 3 / 4, rel=F64_RTOL)


def test_keys_and_values_go_round_the_context_ranks():
    # a quarter of 128 tokens, 2 * 16 numbers of 2 bytes, 3 steps of the ring, 4 layers, forward once and backward twice
    found = sent(work(), layout(context=4, optimizer_sharding="level1"))
    assert found["context"] == 4 * 3 * 3 * (128 / 4) * 32 * 2


def test_a_pipeline_hands_the_stream_on_and_its_gradient_back():
    assert sent(work(calls=3), layout(pipeline=2, micro_batches=2))["pipeline"] == 3 * 2 * STREAM
    interleaved = layout(pipeline=2, micro_batches=2, interleave=2)
    assert sent(work(), interleaved)["pipeline"] == 2 * 2 * STREAM


def test_rollouts_sum_each_token_and_gather_nothing():
    rollout = Rollout(NETWORK, 8, (4, 8), 8, every_step=True)
    more = sent(work(rollouts=(rollout,)), layout(tensor=2))["tensor"] - sent(work(), layout(tensor=2))["tensor"]
    assert more == pytest.approx(9 * 2 * STREAM / 2, rel=F64_RTOL)
    idle = Rollout(NETWORK, 8, (4,), 8, every_step=False)
    assert sent(work(rollouts=(idle,)), layout(tensor=2)) == sent(work(), layout(tensor=2))


def test_whole_gradients_are_summed_once_an_update():
    count = sum(spec.size for spec in NETWORK.tensors)
    assert gradient_bytes(work(calls=5), layout(data=4)) == pytest.approx(2 * 4 * count * 3 / 4, rel=F64_RTOL)


@pytest.mark.parametrize(
    ("sharding", "a_number"),
    # bytes of a gathered copy and of a gradient, by how often: 5 micro-batches an update
    [("level1", 2 + 4), ("level2", 2 + 5 * 4), ("level3", 2 * 5 * 2 + 5 * 4)],
)
def test_shared_weights_are_gathered_and_gradients_scattered(sharding, a_number):
    network = Network("model", model_of((1024, 2, 16, 16, 64, 2048, 8192)), "language", True)
    count = sum(spec.size for spec in network.tensors)
    found = gradient_bytes(work(network=network, calls=5), layout(data=4, optimizer_sharding=sharding))
    assert found / count == pytest.approx(a_number * 3 / 4, rel=UNDIVIDED_RTOL)
