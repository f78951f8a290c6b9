"""Optimizer and learning-rate schedule."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.named import NameIn
from llmstack.config.quantity import StepCount
from llmstack.registry import OPTIMIZERS, SCHEDULES

_FINAL_RATIOS = {"constant": 1, "mindformers:ConstantWarmUpLR": 1, "mindformers:LinearWithWarmUpLR": 0}
"""Schedules that can end at one share of the peak only."""
_FALLING = frozenset({"mindformers:PolynomialWithWarmUpLR", "mindformers:WarmUpStableDecayLR"})
"""Schedules that refuse to end where they start."""
_DECAYING = frozenset({"wsd", "mindformers:WarmUpStableDecayLR"})
_NOT_DECAYING = frozenset(
    {
        "constant",
        "linear",
        "cosine",
        "mindformers:ConstantWarmUpLR",
        "mindformers:LinearWithWarmUpLR",
        "mindformers:CosineWithWarmUpLR",
        "mindformers:PolynomialWithWarmUpLR",
    }
)
"""Schedules with and without ``decay_ratio``; a plugin's may use it or not."""

MomentDecay: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


class ScheduleConfig(Strict):
    """Learning rate as a fraction of ``optim.lr`` over the optimizer steps of a stage."""

    name: Annotated[str, NameIn(SCHEDULES)]
    """Name in the schedule registry: constant, linear, cosine, wsd, or one of MindFormers', e.g.
    ``mindformers:CosineWithWarmUpLR``."""
    warmup: StepCount
    """Optimizer steps of linear warm-up from 0, e.g. ``20 steps``; ``0 steps`` starts at the peak."""
    final_ratio: float = Field(ge=0, le=1)
    """Learning rate at the end divided by ``lr``; ``constant`` requires 1."""
    decay_ratio: float | None = Field(default=None, gt=0, le=1)
    """wsd and mindformers:WarmUpStableDecayLR only: share of the steps, at the end, in which the rate decays."""

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        problems = {}
        only = _FINAL_RATIOS.get(self.name, self.final_ratio)
        if self.final_ratio != only:
            problems["final_ratio"] = (
                f"expected {only} because the schedule is {self.name}, got {self.final_ratio:g}. "
                f"Write {only}, or choose another schedule."
            )
        if self.name in _FALLING and self.final_ratio == 1:
            problems["final_ratio"] = (
                f"expected less than 1 because the schedule is {self.name}, got 1. Lower it, or choose constant."
            )
        if self.name in _DECAYING and self.decay_ratio is None:
            problems["decay_ratio"] = (
                f"expected a share of the steps because the schedule is {self.name}, got nothing. Add it, e.g. 0.2."
            )
        if self.name in _NOT_DECAYING and self.decay_ratio is not None:
            problems["decay_ratio"] = (
                f"expected nothing because the schedule is {self.name}, got {self.decay_ratio:g}. "
                "Remove it, or choose the schedule wsd."
            )
        reject(self, problems)
        return self


class OptimConfig(Strict):
    """AdamW with clipping by the global norm."""

    name: Annotated[str, NameIn(OPTIMIZERS)]
    """Name in the optimizer registry: ``adamw`` or ``mindformers:AdamW``."""
    lr: float = Field(gt=0)
    """Peak learning rate."""
    betas: tuple[MomentDecay, MomentDecay]
    """Decay rates of the first and second moment."""
    eps: float = Field(gt=0)
    """Added to the root of the second moment."""
    weight_decay: float = Field(ge=0)
    """Decoupled decay, applied to parameters of two or more dimensions only."""
    max_grad_norm: float = Field(gt=0)
    """Gradients are scaled down to this global norm."""
    schedule: ScheduleConfig
    """How the learning rate moves."""
