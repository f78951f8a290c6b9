"""The random numbers and the temperature a graph samples with."""

from __future__ import annotations

import math

import numpy as np

from llmstack.errors import UserError

_COLDEST = 2.0**-60
"""Temperature that stands for 0. Logits are scaled by a power of two, so no rounding is added, and any two that differ
end so far apart that softmax gives the larger one everything."""
_GREEDY_UNIFORM = 2.0**-20
"""The uniform number at temperature 0: inverting the distribution at it gives the first of the best tokens."""
_UNIFORM_STEPS = 2**23
"""Uniform numbers are the middles of this many equal parts of (0, 1): float32 holds them exactly, and never 0 or 1."""


def uniforms(shape: tuple[int, int], temperature: float, rng: np.random.Generator) -> np.ndarray:
    """The noise of some tokens, one number each.

    Args:
        shape: (R, B), tokens and rows.
        temperature: at 0 nothing is drawn from ``rng``.
        rng: where the numbers come from.

    Returns:
        (R, B) float32 in (0, 1).
    """
    if temperature < _COLDEST:
        return np.full(shape, _GREEDY_UNIFORM, np.float32)
    return ((rng.integers(0, _UNIFORM_STEPS, shape) + 0.5) / _UNIFORM_STEPS).astype(np.float32)


def divisor(temperature: float) -> np.ndarray:
    """What a graph divides logits by.

    Args:
        temperature: 0 or a positive number.

    Returns:
        (1,) float32, above 0.

    Raises:
        UserError: it is negative, infinite or not a number.
    """
    check_temperature(temperature)
    return np.array([max(temperature, _COLDEST)], np.float32)


def check_temperature(temperature: float) -> None:
    """Refuse what no softmax can be divided by.

    Args:
        temperature: 0 or a positive number.

    Raises:
        UserError: it is negative, infinite or not a number.
    """
    if not 0.0 <= temperature < math.inf:
        raise UserError(f"temperature: expected 0 or a positive number, got {temperature}. 0 takes the best token.")
