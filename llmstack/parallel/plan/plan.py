"""A recipe's plan: its stages on its own layout or on the best one, with the other layouts and the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmstack.config.hardware import HardwareConfig
from llmstack.config.mesh_checks import model_problems, stage_problems
from llmstack.config.parallel import ParallelConfig
from llmstack.config.recipe import RecipeConfig
from llmstack.config.stages import StageConfig
from llmstack.errors import ConfigError, Problem, UserError
from llmstack.parallel.plan.activations import WIDTH
from llmstack.parallel.plan.command import launch_command
from llmstack.parallel.plan.communication import sent
from llmstack.parallel.plan.inventory import alike
from llmstack.parallel.plan.layouts import Job, Layout, Unfit, evaluate, problems, rank
from llmstack.parallel.plan.memory import CardMemory, card_memory
from llmstack.parallel.plan.models import Models
from llmstack.parallel.plan.timing import StepTime
from llmstack.parallel.plan.work import StageWork, work_of


@dataclass(frozen=True)
class StagePlan:
    """One stage on the chosen layout.

    Attributes:
        work: one step.
        memory: of its fullest device.
        recomputed: bytes of that device by recomputation: none, selective, full.
        time: of a step; None when the hardware is not known.
        sent: bytes a device sends in a step, by axis.
        checkpoint: bytes of a checkpoint.
        final: bytes of the model it hands on.
    """

    work: StageWork
    memory: CardMemory
    recomputed: dict[str, float]
    time: StepTime | None
    sent: dict[str, float]
    checkpoint: int
    final: int


@dataclass(frozen=True)
class Plan:
    """All that ``llmstack plan`` knows.

    Attributes:
        recipe: its name.
        parallel: the layout that is described.
        own: whether that is the recipe's own.
        hardware: of each device; None: not known.
        stages: the stages.
        layouts: other layouts of as many devices, the best first; empty when the hardware is not known.
        unfit: meshes that do not divide the recipe.
        command: what starts it.
    """

    recipe: str
    parallel: ParallelConfig
    own: bool
    hardware: HardwareConfig | None
    stages: tuple[StagePlan, ...]
    layouts: tuple[Layout, ...]
    unfit: tuple[Unfit, ...]
    command: str

    @property
    def fits(self) -> bool:
        """Whether every stage has room; true when nobody knows how much there is."""
        limit = self.hardware.usable_bytes if self.hardware else float("inf")
        return all(stage.memory.total <= limit for stage in self.stages)


def make_plan(
    config: RecipeConfig,
    recipe: Sequence[str],
    num_devices: int | None,
    hardware: HardwareConfig | None,
    *,
    only: str | None = None,
) -> Plan:
    """Plans a recipe.

    Args:
        config: the recipe.
        recipe: the recipe and its ``key=value`` arguments, as typed.
        num_devices: N; None takes those of the recipe's mesh.
        hardware: of each device; None: not known, so that there are no times and nothing is compared.
        only: plan this stage alone.

    Raises:
        UserError: the mesh has another number of devices, or divides the recipe not, or there is no such stage.
    """
    if only is not None and only not in config.stages:
        raise UserError(f"--stage: expected one of {', '.join(config.stages)}, got {only!r}. Name a stage.")
    stages = {name: stage for name, stage in config.stages.items() if only in (None, name)}
    models = Models(config)
    works = tuple(work_of(name, stage, models.of_stage(name)) for name, stage in stages.items())
    # what a device can do is said of Ascend's: a recipe for a CPU is planned as if it named them
    base = config.parallel.model_copy(update={"device": "ascend"}) if hardware else config.parallel
    devices = base.num_devices if num_devices is None else num_devices
    own = devices == base.num_devices
    if not own and base.num_devices > 1:
        mesh = " x ".join(f"{axis} {getattr(base, axis)}" for axis in ("pipeline", "data", "context", "tensor"))
        raise UserError(_other_devices(base, mesh, devices))
    times: tuple[StepTime | None, ...] = (None,) * len(works)
    layouts: list[Layout] = []
    unfit: list[Unfit] = []
    chosen = base if own else None
    if hardware is not None:
        job = Job(works, stages, models.all(), base, hardware)
        _refuse(list(problems(job, base)) if own else [])
        layouts, unfit = rank(job, devices)
        if chosen is None:
            chosen = layouts[0].parallel if layouts else None
        times = evaluate(job, chosen).times if chosen is not None else ()
    else:
        chosen = chosen or base.model_copy(update={"mode": "mesh", "data": devices})
        found = [found for where, model in models.all().items() for found in model_problems(chosen, model, where)]
        _refuse([*found, *(each for name, stage in stages.items() for each in stage_problems(chosen, name, stage))])
    if chosen is None:
        reasons = "; ".join(dict.fromkeys(each.reason for each in unfit[:3]))
        raise UserError(f"--devices: expected a number some mesh of which divides the recipe, got {devices}: {reasons}")
    planned = tuple(
        _stage_plan(work, stages[work.name], chosen, time, fused=_fused(chosen, hardware))
        for work, time in zip(works, times, strict=True)
    )
    command = launch_command(recipe, chosen, config.parallel, hardware, config.run_dir)
    return Plan(config.name, chosen, own, hardware, planned, tuple(layouts), tuple(unfit), command)


def _fused(parallel: ParallelConfig, hardware: HardwareConfig | None) -> bool:
    return parallel.device == "ascend" or hardware is not None


def _refuse(found: list[tuple[str, str]]) -> None:
    if found:
        raise ConfigError([Problem(path, message) for path, message in dict(reversed(found)).items()])


def _other_devices(base: ParallelConfig, mesh: str, devices: int) -> str:
    rest = base.num_devices // base.data
    free = "ascend" if base.device == "ascend" else "single"
    fix = f"Write parallel.data={devices // rest}" if devices % rest == 0 else f"Give a multiple of {rest}"
    return (
        f"--devices: expected those of the recipe's mesh ({mesh} = {base.num_devices}), got {devices}. {fix}, leave "
        f"--devices out, or write `parallel={free}` to compare all layouts."
    )


def _stage_plan(
    work: StageWork, stage: StageConfig, parallel: ParallelConfig, time: StepTime | None, *, fused: bool
) -> StagePlan:
    options = ("none", "selective", "full")
    recomputed = {how: card_memory(work, parallel, fused=fused, recompute=how).total for how in options}
    trained = sum(
        spec.size for network in work.networks if network.trained
        for spec in network.tensors if spec.trained
    )  # fmt: skip
    first = work.networks[0]
    whole = sum(spec.size for spec in alike(first.model, "scalar" if first.head == "scalar" else "language"))
    return StagePlan(
        work=work,
        memory=card_memory(work, parallel, fused=fused),
        recomputed=recomputed,
        time=time,
        sent=sent(work, parallel),
        checkpoint=3 * trained * WIDTH[parallel.master_dtype],
        final=whole * WIDTH[stage.final_dtype],
    )
