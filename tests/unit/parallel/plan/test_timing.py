from __future__ import annotations

import pytest

from llmstack.parallel.plan.communication import sent
from llmstack.parallel.plan.timing import axis_bandwidth, bubble_ratio, imbalance_ratio, step_time
from llmstack.parallel.plan.work import Network, Pass, Rollout, StageWork
from tests.helpers.plans import card, layout, small
from tests.reference.planning import one_forward_one_backward
from tests.tolerances import F64_RTOL, UNDIVIDED_RTOL

NETWORK = Network("model", small(), "language", True)
TRAIN = Pass(NETWORK, True, 8, 16, 16, 1)


def work(*passes, rollouts=(), updates=1):
    return StageWork("s", "k", (NETWORK,), passes or (TRAIN,), rollouts, 128, updates, False)


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (2, 2), (2, 8), (4, 4), (4, 13)])
def test_the_bubble_is_that_of_a_pipeline_that_is_run(stages, micro_batches):
    idle, _ = one_forward_one_backward(stages, micro_batches)
    assert bubble_ratio(stages, micro_batches) == pytest.approx(idle, rel=F64_RTOL)


def test_by_hand():
    assert bubble_ratio(4, 8, 2) == 3 / 16
    # of two ranks of a row of 4 the first has keys 0.5 and 1.5, the second 2.5 and 3.5: mean 2, the last 3
    assert imbalance_ratio(2) == 3 / 2 - 1 and imbalance_ratio(1) == 0


def test_one_device_computes_and_updates():
    found = step_time(work(), layout(), card())
    busy = TRAIN.flops.total / (1e12 * 0.5)
    moments = 2 * 4 * sum(spec.size for spec in NETWORK.tensors) + 4
    assert found.parts["compute"] == pytest.approx(busy, rel=F64_RTOL)
    assert found.parts["optimizer"] == pytest.approx(7 * moments / 2 / 100e9, rel=F64_RTOL)
    assert found.total == pytest.approx(busy + found.parts["optimizer"], rel=F64_RTOL)
    assert found.mfu == pytest.approx(TRAIN.flops.total / found.total / 1e12, rel=F64_RTOL)
    assert found.mfu_without_attention < found.mfu < 0.5


def test_float32_is_computed_at_its_own_peak():
    slow = step_time(work(), layout(compute_dtype="float32"), card())
    assert slow.parts["compute"] == pytest.approx(4 * step_time(work(), layout(), card()).parts["compute"])


def test_what_is_computed_twice_takes_time_and_is_not_useful():
    plain, full = (step_time(work(), layout(recompute=how), card()) for how in ("none", "full"))
    selective = step_time(work(), layout(recompute="selective"), card())
    assert 0 < full.parts["recompute"] < plain.parts["compute"] / 3
    assert full.mfu * full.total == pytest.approx(plain.mfu * plain.total, rel=F64_RTOL)
    assert selective.parts["recompute"] == pytest.approx(2 * 128 * 4 * 2 * (2 * 16 + 32) / 100e9, rel=F64_RTOL)


def test_an_axis_is_as_fast_as_the_slowest_wire_it_needs():
    mesh = layout(tensor=4, data=2)
    assert (axis_bandwidth(mesh, card(), "tensor"), axis_bandwidth(mesh, card(), "data")) == (10e9, 1e9)
    assert axis_bandwidth(mesh, card(fast_devices=8), "data") == 10e9
    assert axis_bandwidth(layout(context=2, data=4, optimizer_sharding="level1"), card(), "context") == 10e9
    volume = sent(work(), mesh)
    found = step_time(work(), mesh, card())
    assert found.parts["data"] == volume["data"] / 1e9 and found.parts["tensor"] == volume["tensor"] / 10e9


def test_scoring_waits_for_every_rank_of_a_pipeline():
    scored = Pass(NETWORK, False, 8, 16, 16, 1)
    mesh = layout(pipeline=4, micro_batches=4)
    found = step_time(work(scored), mesh, card())
    assert found.parts["bubble"] == pytest.approx(3 * found.parts["compute"], rel=F64_RTOL)


def test_decoding_reads_all_weights_for_each_token():
    rollout = Rollout(NETWORK, 2, (8,), 4, every_step=True)
    slow_memory = card(memory_gbps=1e-3)
    found = step_time(work(rollouts=(rollout,)), layout(), slow_memory).parts["rollout"]
    weights = 2 * sum(spec.size for spec in NETWORK.tensors)
    cache = 2 * (8 + 2) * 2 * 4 * 4 * 4 * 2
    assert found == pytest.approx(4 * (weights + cache) / 1e6, rel=UNDIVIDED_RTOL)
    shared = step_time(work(rollouts=(rollout,)), layout(tensor=2), slow_memory).parts["rollout"]
    assert shared == pytest.approx(found / 2, rel=UNDIVIDED_RTOL)
    idle = Rollout(NETWORK, 2, (8,), 4, every_step=False)
    assert step_time(work(rollouts=(idle,)), layout(), slow_memory).parts["rollout"] == 0
