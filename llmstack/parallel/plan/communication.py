"""Bytes that a device sends over each axis of the mesh in one step."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmstack.config.parallel import AXES, ParallelConfig
from llmstack.parallel.plan.activations import WIDTH
from llmstack.parallel.plan.memory import shards
from llmstack.parallel.plan.work import Pass, Rollout, StageWork


def ring_gather(size: float, ranks: int) -> float:
    """What a rank sends so that all have a whole of which each has a part, or so that each has its part of a sum.

    Args:
        size: bytes of the whole.
        ranks: n; round a ring each sends n - 1 times a part (Thakur et al. 2005, sections 4.1 and 4.2).
    """
    return size * (ranks - 1) / ranks


def ring_all_reduce(size: float, ranks: int) -> float:
    """What a rank sends so that all have the sum: each gets its part of it, then all gather the parts.

    Args:
        size: bytes of what is summed.
        ranks: how many sum (Thakur et al. 2005, section 4.4).
    """
    return 2 * ring_gather(size, ranks)


def sent(work: StageWork, parallel: ParallelConfig) -> dict[str, float]:
    """Bytes that a device sends in one step of a stage.

    * tensor: a layer sums its two halves' outputs forward and the gradients of their inputs backward (Shoeybi et al.
      2019, section 3), with full recomputation forward once more; the embedding sums once, the head once backward.
      Sequence parallelism gathers and scatters instead, which is as much.
    * context: keys and values go once round a ring forward, and with their gradients backward (Liu et al. 2023,
      section 3; Brandon et al. 2023).
    * pipeline: a rank hands on a micro-batch's stream, and its gradient back.
    * data: gradients of an update are summed over all ranks that hold the same weights; see :func:`gradient_bytes`.

    Args:
        work: the stage.
        parallel: mesh, dtypes, sharding and recomputation.

    Returns:
        Axis -> bytes. What goes over data and context together is counted for data.
    """
    total = dict.fromkeys(AXES, 0.0)
    for each in work.passes:
        for axis, size in _of_pass(each, parallel):
            total[axis] += size
    for rollout in work.rollouts:
        if rollout.every_step:
            for axis, size in _of_rollout(rollout, parallel):
                total[axis] += size
    total["data"] += gradient_bytes(work, parallel)
    return total


def _of_pass(each: Pass, parallel: ParallelConfig) -> Iterator[tuple[str, float]]:
    model, number = each.network.model, WIDTH[parallel.compute_dtype]
    tokens = each.calls * each.rows * each.tokens / parallel.data / parallel.context
    layers = model.num_hidden_layers / parallel.pipeline
    stream = tokens * model.hidden_size * number
    again = 1 if each.train and parallel.recompute == "full" else 0
    sums = layers * ((4 if each.train else 2) + 2 * again) + (2 if each.train else 1)
    yield "tensor", sums * ring_all_reduce(stream, parallel.tensor)
    kv_width = 2 * model.num_key_value_heads * model.head_dim / parallel.tensor
    rounds = (3 if each.train else 1) + again
    yield "context", layers * (parallel.context - 1) * rounds * tokens * kv_width * number
    hops = parallel.interleave * (2 if each.train else 1) if parallel.pipeline > 1 else 0
    yield "pipeline", hops * stream / (parallel.tensor if parallel.sequence_parallel else 1)


def _of_rollout(rollout: Rollout, parallel: ParallelConfig) -> Iterator[tuple[str, float]]:
    model, number = rollout.network.model, WIDTH[parallel.compute_dtype]
    tokens = math.ceil(rollout.rows / parallel.data) * (rollout.prompts[-1] + rollout.response)
    stream = tokens * model.hidden_size * number
    yield "tensor", (2 * model.num_hidden_layers / parallel.pipeline + 1) * ring_all_reduce(stream, parallel.tensor)
    yield "pipeline", stream if parallel.pipeline > 1 else 0.0


def gradient_bytes(work: StageWork, parallel: ParallelConfig) -> float:
    """What a device sends over the data and context axes for the updates of a step.

    Whole gradients are summed by all. What is sharded (Rajbhandari et al. 2020, section 7): gradients are summed into
    their parts and weights are gathered for the forward pass, once an update with level1, once a micro-batch with
    level2; with level3 weights are gathered for the backward pass again.

    Args:
        work: the stage.
        parallel: mesh, dtypes and sharding.
    """
    total = 0.0
    for network in (network for network in work.networks if network.trained):
        calls = [each.calls for each in work.passes if each.train and each.network is network and not each.joined]
        updates = work.updates / sum(other.trained for other in work.networks)
        micro = calls[0] * parallel.micro_batches if calls else updates
        gathers, scatters = {
            "none": (0.0, 0.0),
            "level1": (updates, updates),
            "level2": (updates, micro),
            "level3": (2 * micro, micro),
        }[parallel.optimizer_sharding]
        for spec in network.tensors:
            if not spec.trained:
                continue
            size = spec.size / (parallel.tensor if spec.cut is not None else 1)
            size /= parallel.pipeline if spec.place == "block" else 1
            master, compute = size * WIDTH[parallel.master_dtype], size * WIDTH[parallel.compute_dtype]
            if shards(spec, parallel) == 1:
                total += updates * ring_all_reduce(master, parallel.num_replicas)
            else:
                total += gathers * ring_gather(compute, parallel.num_replicas)
                total += scatters * ring_gather(master, parallel.num_replicas)
    return total
