"""Learning-rate schedules: the rate of an optimizer step as a share of the peak rate.

Steps are optimizer steps (not micro-batches, not skipped ones) and count from 1: ``step`` is the number of the step
about to be taken. Warm-up gives step s the share ``s / warmup``, so the first step already learns and step ``warmup``
is the first at the peak. After it, ``progress = (s - 1 - start) / (total - start)`` runs from 0 up to, but never
reaching, 1: the last step still learns when ``final_ratio`` is 0. A step past the end keeps ``final_ratio``.

This module is plain Python; it never imports MindSpore.
"""

from __future__ import annotations

import math

from llmstack.config.optim import OptimConfig, ScheduleConfig
from llmstack.registry import SCHEDULES


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """Gives the learning rate of one optimizer step.

    Args:
        config: peak rate ``lr`` and the schedule.
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the whole stage.

    Returns:
        ``lr`` times the schedule's share of the peak.

    Raises:
        ValueError: ``step`` is below 1.
    """
    if step < 1:
        raise ValueError(f"step: expected the number of an optimizer step, from 1, got {step}. Count steps from 1.")
    shape = SCHEDULES.get(config.schedule.name)
    return config.lr * float(shape(step, total_steps, int(config.schedule.warmup.amount), config.schedule))


def constant(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """Warm-up, then 1.

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: the schedule's options; none is used here.

    Returns:
        ``min(1, s / warmup)``.
    """
    return _warmup(step, warmup)


def linear(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """Warm-up, then a straight line from 1 to ``final_ratio``.

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: ``final_ratio`` is used.

    Returns:
        ``1 - (1 - final_ratio) * progress`` after the warm-up.
    """
    return _warmup(step, warmup) * (1.0 - (1.0 - config.final_ratio) * _progress(step, warmup, total_steps))


def cosine(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """Warm-up, then half a cosine from 1 to ``final_ratio`` (Loshchilov & Hutter 2017, SGDR, equation 5, no restart).

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: ``final_ratio`` is used.

    Returns:
        ``final + (1 - final) * (1 + cos(pi * progress)) / 2`` after the warm-up.
    """
    half_cosine = 0.5 * (1.0 + math.cos(math.pi * _progress(step, warmup, total_steps)))
    return _warmup(step, warmup) * (config.final_ratio + (1.0 - config.final_ratio) * half_cosine)


def wsd(step: int, total_steps: int, warmup: int, config: ScheduleConfig) -> float:
    """Warm-up, stable at 1, then a line to ``final_ratio`` (Hu et al. 2024, MiniCPM, section 4.2).

    The decay is a straight line (Hägele et al. 2024) over the last ``round(decay_ratio * total_steps)`` steps, or over
    all steps after the warm-up when those are fewer.

    Args:
        step: number of the step about to be taken, from 1.
        total_steps: optimizer steps of the stage.
        warmup: optimizer steps of warm-up.
        config: ``final_ratio`` and ``decay_ratio`` are used.

    Returns:
        ``1 - (1 - final_ratio) * progress``, where progress is 0 until the decay starts.
    """
    start = max(warmup, total_steps - round((config.decay_ratio or 0.0) * total_steps))
    return _warmup(step, warmup) * (1.0 - (1.0 - config.final_ratio) * _progress(step, start, total_steps))


def _warmup(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _progress(step: int, start: int, end: int) -> float:
    return min(1.0, max(0.0, (step - 1 - start) / max(1, end - start)))
