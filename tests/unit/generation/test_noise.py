from __future__ import annotations

import math

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.generation.noise import check_temperature, divisor, uniforms
from tests.tolerances import STANDARD_ERRORS


def test_noise_lies_within_zero_and_one_and_is_even():
    drawn = uniforms((200, 18), 1.0, np.random.default_rng(0))
    assert drawn.dtype == np.float32 and drawn.shape == (200, 18)
    assert 0.0 < drawn.min() and drawn.max() < 1.0
    counts, _ = np.histogram(drawn, bins=4, range=(0, 1))
    standard_error = np.sqrt(0.25 * 0.75 * drawn.size)
    assert np.abs(counts - 0.25 * drawn.size).max() < STANDARD_ERRORS * standard_error


def test_temperature_zero_takes_no_noise():
    rng = np.random.default_rng(0)
    assert np.unique(uniforms((2, 3), 0.0, rng)).size == 1
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state


def test_temperature_zero_is_a_division_by_next_to_nothing():
    assert divisor(0.0).tolist() == [2.0**-60]
    assert divisor(1.5).tolist() == [1.5]
    assert divisor(1.5).dtype == np.float32


@pytest.mark.parametrize("temperature", [-0.1, math.inf, math.nan])
def test_bad_temperatures_are_refused(temperature):
    with pytest.raises(UserError, match="temperature: expected 0 or a positive number, got"):
        divisor(temperature)
    with pytest.raises(UserError, match="0 takes the best token"):
        check_temperature(temperature)
