"""Memory of one device during a stage."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from llmstack.config.parallel import ParallelConfig
from llmstack.parallel.plan.activations import WIDTH, TokenBytes, in_flight, kv_cache_bytes, mask_bytes, token_bytes
from llmstack.parallel.plan.inventory import TensorSpec
from llmstack.parallel.plan.work import Network, Pass, StageWork

SMALLEST_SHARD = 64 * 1024
"""Bytes below which MindSpore's optimizer sharding leaves a weight whole."""
FRAGMENTATION = 0.05
"""Share of what comes and goes that lies idle between blocks in use."""
MOMENTS = 2
"""What AdamW keeps for each trained number."""
STEP_BYTES = 4
"""AdamW's own counter, an int32."""


@dataclass(frozen=True)
class Held:
    """Bytes on one device that stay.

    Attributes:
        weights: trained weights, and copies of them in the compute dtype.
        frozen: weights that do not learn.
        gradients: one for each trained number.
        optimizer: moments and step.
    """

    weights: float = 0.0
    frozen: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0


@dataclass(frozen=True)
class CardMemory:
    """Bytes on the device that needs most, by what they are for.

    Attributes:
        weights: all networks' weights.
        gradients: of what is trained.
        optimizer: moments.
        activations: kept for backward passes, and working room.
        logits: and what their loss keeps.
        kv_cache: keys and values of answers.
        allowance: for fragmentation.
        pipeline_rank: which rank of the pipeline this is.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    kv_cache: float
    allowance: float
    pipeline_rank: int

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.parts.values())

    @property
    def parts(self) -> dict[str, float]:
        """The bytes by name."""
        return {name: value for name, value in vars(self).items() if name != "pipeline_rank"}


def held(network: Network, parallel: ParallelConfig, stage: int) -> Held:
    """What one network holds on a device.

    A trained number takes the master dtype for itself and for its gradient, two more for AdamW's moments (Rajbhandari
    et al. 2020, section 3.1), and its compute dtype once more when that is another. Sharding divides by the ranks of
    the data and context axes; a tensor whose first dimension they do not divide, or that is small, stays whole.

    Args:
        network: the network.
        parallel: mesh, dtypes and sharding.
        stage: rank of the pipeline, from 0.
    """
    if network.shared:
        return Held()
    master, compute = WIDTH[parallel.master_dtype], WIDTH[parallel.compute_dtype]
    weights = frozen = gradients = optimizer = copies = largest = 0.0
    for spec in network.tensors:
        count = _count_here(spec, network.model.tie_word_embeddings, parallel, stage)
        if not count:
            continue
        whole = math.prod(spec.shape) / (parallel.tensor if spec.cut is not None else 1)
        if not (network.trained and spec.trained):
            frozen += whole * count * compute
            continue
        share = shards(spec, parallel)
        weights += whole * count * master / share
        gradients += whole * count * master / (share if parallel.optimizer_sharding in ("level2", "level3") else 1)
        optimizer += whole * count * MOMENTS * master / share
        if compute != master or share > 1:  # gathered or cast, and kept until its backward pass
            copies += whole * count * compute
            largest = max(largest, whole * compute)
    if parallel.optimizer_sharding == "level3":
        layers = network.model.num_hidden_layers // parallel.pipeline
        # the layer at work and the one that is being gathered for what follows
        copies = min(copies, max(2 * copies / max(layers, 1), largest))
    return Held(weights + copies, frozen, gradients, optimizer + (STEP_BYTES if optimizer else 0))


def shards(spec: TensorSpec, parallel: ParallelConfig) -> int:
    """How many ranks share a trained tensor besides the tensor ranks.

    Args:
        spec: the tensor.
        parallel: mesh, dtypes and sharding.
    """
    ranks = parallel.num_replicas
    first = spec.shape[0] // (parallel.tensor if spec.cut == 0 else 1)
    size = math.prod(spec.shape) * WIDTH[parallel.master_dtype] / (parallel.tensor if spec.cut is not None else 1)
    return ranks if parallel.optimizer_sharding != "none" and first % ranks == 0 and size >= SMALLEST_SHARD else 1


def _count_here(spec: TensorSpec, tied: bool, parallel: ParallelConfig, stage: int) -> float:
    """How many of a tensor's copies are on a rank of the pipeline; a tied embedding is at both of its ends."""
    last = parallel.pipeline - 1
    if spec.place == "block":
        return spec.copies / parallel.pipeline
    if spec.place == "first" and tied and stage == last:
        return spec.copies
    return spec.copies if stage == (0 if spec.place == "first" else last) else 0


def card_memory(work: StageWork, parallel: ParallelConfig, *, fused: bool, recompute: str | None = None) -> CardMemory:
    """What the fullest device of a stage holds at the fullest moment of a step.

    Args:
        work: the stage.
        parallel: mesh, dtypes, sharding and recomputation.
        fused: whether Ascend's fused operators run.
        recompute: another recomputation than the mesh's; None: that one.
    """
    ends = {0, parallel.pipeline - 1}
    found = [_memory_at(stage, work, parallel, fused, recompute or parallel.recompute) for stage in sorted(ends)]
    return max(found, key=lambda memory: memory.total)


def _memory_at(stage: int, work: StageWork, parallel: ParallelConfig, fused: bool, recompute: str) -> CardMemory:
    parts = [held(network, parallel, stage) for network in work.networks]
    gradients = [part.gradients for part in parts]
    # without buffers a network's gradients live in its own step alone; with them the newest are made beside the sums
    kept = sum(gradients) + (max(gradients) if parallel.pipeline == 1 else 0) if work.accumulates else max(gradients)
    number = WIDTH[parallel.compute_dtype]
    cache = 0.0
    for rollout in work.rollouts:
        rows = math.ceil(rollout.rows / parallel.data)
        for prompt in rollout.prompts:
            cache += kv_cache_bytes(rollout.network.model, rows, prompt + rollout.response, number)
    cache /= parallel.tensor * parallel.pipeline
    peaks = [_peak(group, parallel, stage, fused, recompute) for group in _graphs(work.passes)]
    activations, logits = max(peaks, key=sum)
    return CardMemory(
        weights=sum(part.weights + part.frozen for part in parts),
        gradients=kept,
        optimizer=sum(part.optimizer for part in parts),
        activations=activations,
        logits=logits,
        kv_cache=cache,
        allowance=FRAGMENTATION * (activations + logits + kept),
        pipeline_rank=stage,
    )


def _graphs(passes: tuple[Pass, ...]) -> Iterator[list[Pass]]:
    """Passes of one graph together."""
    group: list[Pass] = []
    for each in passes:
        if group and not each.joined:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _peak(group: list[Pass], parallel: ParallelConfig, stage: int, fused: bool, recompute: str) -> tuple[float, float]:
    """Activations and logits at the fullest moment: in the loss, or in the backward pass of the last layer."""
    kept = most_working = logits = 0.0
    for each in group:
        rank = each.network.lora.rank if each.network.lora else 0
        sizes = token_bytes(each.network.model, each.network.head, parallel, fused=fused, rank=rank)
        rows = each.rows / parallel.data / (parallel.micro_batches if each.train else 1)
        tokens = rows * each.tokens / parallel.context
        if stage == parallel.pipeline - 1:
            logits += rows * each.targets / parallel.context * sizes.logit_row * (1.0 if each.train else 2 / 3)
        kept += tokens * sizes.ends + (mask_bytes(rows, each.tokens, parallel.context) if fused else 0.0)
        kept += tokens * _layers(each, sizes, parallel, stage, recompute)
        working = sizes.made_again(recompute) if each.train else sizes.backward
        most_working = max(most_working, tokens * working)
    # logits are gone before the backward pass of the last layer begins: what it needs can have their place
    return kept + max(0.0, most_working - logits), logits


def _layers(each: Pass, sizes: TokenBytes, parallel: ParallelConfig, stage: int, recompute: str) -> float:
    """Bytes a token that the layers of this device keep; a pass forward alone keeps the stream."""
    if not each.train:
        return sizes.input
    layers = each.network.model.num_hidden_layers / parallel.pipeline
    return layers * sizes.kept(recompute) * in_flight(parallel, stage)
