"""MindFormers' learning-rate schedules under the contract of ours: a share of the peak for each optimizer step.

Each is MindFormers' own Cell with a peak of 1. As in its trainer, the first optimizer step is its step 0: with a
warm-up that step has rate 0, and step ``warmup + 1`` is the first at the peak, one later than in
:mod:`llmstack.optim.schedules`. A Cell is asked for steps of the run only: past the end WarmUpStableDecayLR falls below
zero.
"""

from __future__ import annotations

import functools
from typing import Any

import mindspore as ms
from mindspore import Tensor

from llmstack.config.optim import ScheduleConfig
from llmstack.integrations.mindformers.library import build_lr


def constant_warm_up(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """ConstantWarmUpLR: a line up to 1, then 1.

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: none of its options is used here.
    """
    return _share("ConstantWarmUpLR", step, total_steps, warmup, ())


def linear_with_warm_up(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """LinearWithWarmUpLR: a line up to 1, then one down to 0.

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: none of its options is used here.
    """
    return _share("LinearWithWarmUpLR", step, total_steps, warmup, ())


def cosine_with_warm_up(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """CosineWithWarmUpLR: a line up to 1, then half a cosine down to ``final_ratio``.

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: ``final_ratio`` is used.
    """
    return _share("CosineWithWarmUpLR", step, total_steps, warmup, (("lr_end", config.final_ratio),))


def polynomial_with_warm_up(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """PolynomialWithWarmUpLR at its default power 1: a line up to 1, then one down to ``final_ratio``.

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: ``final_ratio`` is used.
    """
    return _share("PolynomialWithWarmUpLR", step, total_steps, warmup, (("lr_end", config.final_ratio),))


def warm_up_stable_decay(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """WarmUpStableDecayLR: a line up to 1, stable, then a line down to ``final_ratio`` over the last ``decay_ratio``.

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: ``final_ratio`` and ``decay_ratio`` are used.
    """
    if step == 1 and warmup == 0:
        return 1.0  # its stable phase divides the step by itself: not a number at step 0
    start = max(warmup, total_steps - round((config.decay_ratio or 0.0) * total_steps))
    options = (("lr_end", config.final_ratio), ("decay_start_steps", start))
    return _share("WarmUpStableDecayLR", step, total_steps, warmup, options)


def _share(name: str, step: int, total_steps: int, warmup: int, options: tuple[tuple[str, float], ...]) -> float:
    cell = _cell(name, total_steps, warmup, options)
    # called as a function: nn.Cell's own call would compile a graph for each schedule
    return float(cell.construct(Tensor(min(step, total_steps) - 1, ms.float32)))


@functools.lru_cache(maxsize=16)
def _cell(name: str, total_steps: int, warmup: int, options: tuple[tuple[str, float], ...]) -> Any:
    return build_lr(class_name=name, learning_rate=1.0, total_steps=total_steps, warmup_steps=warmup, **dict(options))
