"""How long a step takes on a given kind of device, part by part; nothing is taken to overlap."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmstack.config.hardware import HardwareConfig
from llmstack.config.parallel import AXES, ParallelConfig
from llmstack.parallel.mesh import Mesh
from llmstack.parallel.plan.activations import WIDTH, kv_cache_bytes, token_bytes
from llmstack.parallel.plan.communication import sent
from llmstack.parallel.plan.flops import forward, mean_keys, mfu
from llmstack.parallel.plan.memory import held
from llmstack.parallel.plan.work import Rollout, StageWork

_ADAM_READS_AND_WRITES = 7
"""Gradient, weight and both moments are read, weight and moments are written."""


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step.

    Attributes:
        parts: what they are spent on, by name: compute, recompute, imbalance, bubble, rollout, optimizer, and the axes.
        mfu: share of the devices' peak that the model's own operations use.
        mfu_without_attention: the same, those of attention not counted.
    """

    parts: dict[str, float]
    mfu: float
    mfu_without_attention: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.parts.values())


def bubble_ratio(pipeline: int, micro_batches: int, interleave: int = 1) -> float:
    """Time in which a rank of a pipeline waits, over the time in which it works: (p - 1) / (v m).

    Narayanan et al. 2021, sections 2.2.1 and 2.2.2.

    Args:
        pipeline: ranks p.
        micro_batches: parts m of a batch.
        interleave: pieces v of layers a rank has.
    """
    return (pipeline - 1) / (interleave * micro_batches)


def imbalance_ratio(context: int) -> float:
    """Time for attention that ranks of a row spend waiting, over the mean time they work: 1 - 1/c.

    Each has a run of tokens, and a token sees those before it: keys of the mean rank are T/2, those of the last one
    T - T/2c.

    Args:
        context: ranks c that share a row.
    """
    return 1.0 - 1.0 / context


def step_time(work: StageWork, parallel: ParallelConfig, hardware: HardwareConfig) -> StepTime:
    """Expected time of one step.

    Args:
        work: the stage.
        parallel: mesh, dtypes, sharding and recomputation.
        hardware: of each device.
    """
    devices, peak = parallel.num_devices, hardware.peak_flops(parallel.compute_dtype)
    rate = devices * peak * hardware.efficiency
    training = sum(each.flops.total for each in work.passes if each.train) / rate
    scoring = sum(each.flops.total for each in work.passes if not each.train) / rate
    again = {"none": 0.0, "selective": _selected_seconds(work, parallel, hardware), "full": _recomputed(work) / rate}[
        parallel.recompute
    ]
    bubble = bubble_ratio(parallel.pipeline, parallel.micro_batches, parallel.interleave)
    parts = {
        "compute": training + scoring,
        "recompute": again,
        "imbalance": imbalance_ratio(parallel.context) * _attention(work, parallel) / rate,
        # a scoring pass goes through the pipeline in one piece: the other ranks wait for each
        "bubble": (training + again) * bubble + scoring * (parallel.pipeline - 1),
        "rollout": sum(_rollout_seconds(rollout, parallel, hardware) for rollout in work.rollouts),
        "optimizer": _optimizer_seconds(work, parallel, hardware),
    }
    parts |= _axis_seconds(work, parallel, hardware)
    seconds = sum(parts.values())
    useful = work.flops
    return StepTime(
        parts,
        mfu(useful.total / seconds, devices, peak),
        mfu(useful.matmul / seconds, devices, peak),
    )


def axis_bandwidth(parallel: ParallelConfig, hardware: HardwareConfig, axis: str) -> float:
    """Bytes a second that a device sends over an axis: by the fast link when that joins all who talk.

    Args:
        parallel: the mesh.
        hardware: of each device.
        axis: one of the mesh; gradients are summed over data and context together.
    """
    axes = ("data", "context") if axis == "data" else (axis,)
    slow = Mesh.of(parallel).crosses(hardware.fast_devices, *axes)
    return (hardware.network_gbps if slow else hardware.fast_gbps) * 1e9


def _axis_seconds(work: StageWork, parallel: ParallelConfig, hardware: HardwareConfig) -> dict[str, float]:
    volume = sent(work, parallel)
    return {axis: volume[axis] / axis_bandwidth(parallel, hardware, axis) if volume[axis] else 0.0 for axis in AXES}


def _attention(work: StageWork, parallel: ParallelConfig) -> float:
    """Operations of attention, those done twice included: a third of training's is the forward pass."""
    again = 4 / 3 if parallel.recompute == "full" else 1.0
    return sum(each.flops.attention * (again if each.train else 1.0) for each in work.passes)


def _recomputed(work: StageWork) -> float:
    """Operations of a second forward pass through the layers; the head is not made again."""
    total = 0.0
    for each in work.passes:
        if each.train:
            model, tokens = each.network.model, each.rows * each.tokens
            keys = mean_keys(each.tokens, model.sliding_window)
            total += each.calls * forward(model, each.network.head, tokens, keys, 0).total
    return total


def _selected_seconds(work: StageWork, parallel: ParallelConfig, hardware: HardwareConfig) -> float:
    """Norms and gates are bound by memory: what is made again is written once, and as much is read for it."""
    total = 0.0
    for each in work.passes:
        if each.train:
            sizes = token_bytes(each.network.model, each.network.head, parallel, fused=True)
            tokens = each.calls * each.rows * each.tokens / parallel.data / parallel.context
            total += 2 * tokens * sizes.cheap * each.network.model.num_hidden_layers / parallel.pipeline
    return total / (hardware.memory_gbps * 1e9)


def _rollout_seconds(rollout: Rollout, parallel: ParallelConfig, hardware: HardwareConfig) -> float:
    """Prompts at the speed of matmuls; each further token once through all weights and the caches written so far.

    Decoding is bound by memory (Pope et al. 2022, section 2.1). Pipeline ranks take turns at a token, context ranks do
    the same work, so neither makes it faster.
    """
    if not rollout.every_step:
        return 0.0
    model, number = rollout.network.model, WIDTH[parallel.compute_dtype]
    rows = math.ceil(rollout.rows / parallel.data)
    prompt, response = rollout.prompts[-1], rollout.response
    keys = mean_keys(prompt, model.sliding_window)
    reading = forward(model, "language", rows * prompt, keys, rows).total / parallel.tensor
    weights = sum(spec.size for spec in rollout.network.tensors) * number
    cache = kv_cache_bytes(model, rows, prompt + response / 2, number)
    written = response * (weights + cache) / parallel.tensor / (hardware.memory_gbps * 1e9)
    arithmetic = forward(model, "language", rows * response, prompt + response / 2, rows * response).total
    rate = hardware.peak_flops(parallel.compute_dtype) * hardware.efficiency
    return reading / rate + max(written, arithmetic / parallel.tensor / rate)


def _optimizer_seconds(work: StageWork, parallel: ParallelConfig, hardware: HardwareConfig) -> float:
    """AdamW is bound by memory too: what it reads and writes of each trained number on the device."""
    trained = [network for network in work.networks if network.trained]
    each = [held(network, parallel, parallel.pipeline - 1).optimizer / 2 for network in trained]
    updates = work.updates / max(len(trained), 1)
    return updates * sum(each) * _ADAM_READS_AND_WRITES / (hardware.memory_gbps * 1e9)
