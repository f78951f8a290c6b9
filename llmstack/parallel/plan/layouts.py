"""Layouts of a number of devices: all that divide a recipe, the fastest first, and why the others come after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmstack.config.hardware import HardwareConfig
from llmstack.config.mesh_checks import model_problems, stage_problems
from llmstack.config.model import ModelConfig
from llmstack.config.online import RolloutConfig
from llmstack.config.parallel import AXES, ParallelConfig
from llmstack.config.stages import StageConfig
from llmstack.parallel.plan.memory import CardMemory, card_memory
from llmstack.parallel.plan.timing import StepTime, step_time
from llmstack.parallel.plan.work import StageWork

_WIDEST = 16
"""Tensor, pipeline and context ranks beyond which nobody goes with models of these kinds."""
_MOST_DEVICES = 4096
_RECOMPUTE = ("none", "selective", "full")
_SHARDING = ("none", "level1", "level2", "level3")


@dataclass(frozen=True)
class Job:
    """What is to be laid out.

    Attributes:
        works: one step of each stage.
        stages: options of the stages, by name.
        models: sizes of every model, by where they stand in the recipe.
        base: what the recipe says of dtypes and device; its axes are replaced.
        hardware: of each device.
    """

    works: tuple[StageWork, ...]
    stages: dict[str, StageConfig]
    models: dict[str, ModelConfig]
    base: ParallelConfig
    hardware: HardwareConfig


@dataclass(frozen=True)
class Layout:
    """A mesh with its settings, tried on every stage.

    Attributes:
        parallel: the mesh and its settings.
        memory: of each stage's fullest device.
        times: of a step of each stage.
        fits: whether every stage has room.
        reason: why it is not the best; empty for the best.
    """

    parallel: ParallelConfig
    memory: tuple[CardMemory, ...]
    times: tuple[StepTime, ...]
    fits: bool
    reason: str = ""

    @property
    def seconds(self) -> float:
        """One step of each stage."""
        return sum(time.total for time in self.times)

    @property
    def fullest(self) -> float:
        """Bytes of the fullest device in the stage that needs most."""
        return max(memory.total for memory in self.memory)

    @property
    def parts(self) -> dict[str, float]:
        """Seconds by what they are spent on, over one step of each stage."""
        return {name: sum(time.parts[name] for time in self.times) for name in self.times[0].parts}


@dataclass(frozen=True)
class Unfit:
    """A mesh that does not divide the recipe.

    Attributes:
        axes: length of each axis.
        reason: what it does not divide.
    """

    axes: dict[str, int]
    reason: str


def evaluate(job: Job, parallel: ParallelConfig) -> Layout:
    """A layout's memory and time in every stage.

    Args:
        job: what is laid out.
        parallel: the layout.
    """
    memory = tuple(card_memory(work, parallel, fused=True) for work in job.works)
    times = tuple(step_time(work, parallel, job.hardware) for work in job.works)
    fits = all(each.total <= job.hardware.usable_bytes for each in memory)
    return Layout(parallel, memory, times, fits)


def problems(job: Job, parallel: ParallelConfig) -> Iterator[tuple[str, str]]:
    """What of the recipe a mesh does not divide.

    Args:
        job: what is laid out.
        parallel: the mesh.

    Yields:
        Dotted path and message.
    """
    for where, model in job.models.items():
        yield from model_problems(parallel, model, where)
    for name, stage in job.stages.items():
        yield from stage_problems(parallel, name, stage)


def rank(job: Job, num_devices: int) -> tuple[list[Layout], list[Unfit]]:
    """All layouts of so many devices, each with the settings that suit it best.

    Args:
        job: what is laid out.
        num_devices: N.

    Returns:
        Those that divide the recipe, the fitting ones first and these by time; then the meshes that do not divide it.
    """
    found: list[Layout] = []
    unfit: list[Unfit] = []
    for axes in _meshes(num_devices):
        mesh = _with(job.base, **axes)
        micro_batches = _micro_batches(job, mesh)
        if mesh.pipeline > 1 and micro_batches < mesh.pipeline:
            text = f"{micro_batches} rows a rank for {mesh.pipeline} pipeline ranks"
            unfit.append(Unfit(axes, text))
            continue
        mesh = mesh.model_copy(update={"micro_batches": micro_batches})
        problem = next(problems(job, mesh), None)
        if problem is not None:
            unfit.append(Unfit(axes, f"{problem[0]}: {problem[1]}"))
        else:
            found.append(_best_of_mesh(job, mesh))
    found.sort(key=lambda layout: (not layout.fits, layout.seconds if layout.fits else layout.fullest))
    return [_explained(job, layout, found[0]) for layout in found], unfit


def fewest_devices(job: Job, more_than: int) -> Layout | None:
    """The best layout of the smallest number of devices, doubled until something fits.

    Args:
        job: what is laid out.
        more_than: where to start.
    """
    devices = more_than * 2
    while devices <= _MOST_DEVICES:
        layouts, _ = rank(job, devices)
        if layouts and layouts[0].fits:
            return layouts[0]
        devices *= 2
    return None


def _meshes(num_devices: int) -> Iterator[dict[str, int]]:
    sizes = [n for n in range(1, min(_WIDEST, num_devices) + 1) if num_devices % n == 0]
    for tensor in sizes:
        for pipeline in sizes:
            for context in sizes:
                used = tensor * pipeline * context
                if num_devices % used == 0:
                    yield {"pipeline": pipeline, "data": num_devices // used, "context": context, "tensor": tensor}


def _with(base: ParallelConfig, **axes: int) -> ParallelConfig:
    """The recipe's dtypes and device on another mesh, nothing else taken over."""
    plain = {"mode": "mesh", "interleave": 1, "micro_batches": 1, "recompute": "none", "optimizer_sharding": "none"}
    return base.model_copy(update={**plain, **axes, "sequence_parallel": axes["tensor"] > 1})


def _micro_batches(job: Job, mesh: ParallelConfig) -> int:
    """As many as the rows of all stages allow: the least memory, and the shortest wait."""
    if mesh.pipeline == 1:
        return 1
    rows = [
        stage.batch_rows // (stage.minibatches * stage.accumulate if isinstance(stage, RolloutConfig) else 1)
        for stage in job.stages.values()
    ]
    return max(1, math.gcd(*rows) // mesh.data)


def _best_of_mesh(job: Job, mesh: ParallelConfig) -> Layout:
    """The fastest settings that fit; when none does, those that need least."""
    layouts = [
        evaluate(job, mesh.model_copy(update={"recompute": recompute, "optimizer_sharding": sharding}))
        for sharding in (_SHARDING if mesh.num_replicas > 1 else _SHARDING[:1])
        for recompute in _RECOMPUTE
    ]
    fitting = [layout for layout in layouts if layout.fits]
    if fitting:
        return min(fitting, key=lambda layout: (layout.seconds, layout.fullest))
    return min(layouts, key=lambda layout: layout.fullest)


def _explained(job: Job, layout: Layout, best: Layout) -> Layout:
    """The layout with what it loses by."""
    if layout is best and layout.fits:
        return layout
    if not layout.fits:
        work, memory = max(zip(job.works, layout.memory, strict=True), key=lambda pair: pair[1].total)
        name, size = max(memory.parts.items(), key=lambda part: part[1])
        limit = job.hardware.usable_bytes
        text = f"{memory.total / 1e9:.1f} GB of {limit / 1e9:.1f} in {work.name}, {name} alone {size / 1e9:.1f}"
    else:
        more = {name: seconds - best.parts[name] for name, seconds in layout.parts.items()}
        name = max(more, key=lambda part: more[part])
        slower = layout.seconds / best.seconds - 1
        text = f"{slower:.0%} slower: {describe_part(name)} {_seconds(more[name])} more"
    return Layout(layout.parallel, layout.memory, layout.times, layout.fits, text)


def describe_part(name: str) -> str:
    """A part of a step's time, in words.

    Args:
        name: as in :class:`~llmstack.parallel.plan.timing.StepTime`.
    """
    words = {"bubble": "waiting in the pipeline", "imbalance": "waiting in the row"}
    return f"{name} traffic" if name in AXES else words.get(name, name)


def settings(parallel: ParallelConfig) -> dict[str, object]:
    """What of a layout is not as by default, by key of the recipe.

    Args:
        parallel: the layout.
    """
    keys = (*reversed(AXES), "sequence_parallel", "micro_batches", "interleave", "optimizer_sharding", "recompute")
    fields = ParallelConfig.model_fields
    return {key: getattr(parallel, key) for key in keys if getattr(parallel, key) != fields[key].default}


def overrides(parallel: ParallelConfig, base: ParallelConfig) -> Sequence[str]:
    """Command-line arguments that turn a recipe's layout into another.

    Args:
        parallel: the layout.
        base: the recipe's.
    """
    keys = ("mode", "device", *AXES, "sequence_parallel", "micro_batches", "interleave", "optimizer_sharding")
    keys += ("recompute",)
    changed = {key: getattr(parallel, key) for key in keys if getattr(parallel, key) != getattr(base, key)}
    return [f"parallel.{key}={str(value).lower()}" for key, value in changed.items()]


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 100 else f"{value:.0f} s"
