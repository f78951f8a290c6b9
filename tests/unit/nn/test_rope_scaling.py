from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.model import RopeScaling
from llmstack.nn.rope_scaling import rotary_frequencies
from tests.reference import rope as reference
from tests.tolerances import F64_ATOL


def test_plain_by_hand():
    frequencies, magnitude = rotary_frequencies(4, 100.0)
    np.testing.assert_allclose(frequencies, [1.0, 0.1], rtol=0, atol=F64_ATOL)
    assert magnitude == 1.0


def test_linear_divides_every_frequency():
    frequencies, magnitude = rotary_frequencies(4, 100.0, RopeScaling(rope_type="linear", factor=4.0))
    np.testing.assert_allclose(frequencies, [0.25, 0.025], rtol=0, atol=F64_ATOL)
    assert magnitude == 1.0


@pytest.mark.parametrize(("width", "theta", "context"), [(128, 5e5, 8192), (64, 1e4, 32), (6, 100.0, 100)])
def test_llama3(width, theta, context):
    scaling = RopeScaling(
        rope_type="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=context,
    )
    frequencies, magnitude = rotary_frequencies(width, theta, scaling)
    expected = reference.llama3_frequencies(width, theta, factor=8.0, low=1.0, high=4.0, context=context)
    np.testing.assert_allclose(frequencies, expected, rtol=0, atol=F64_ATOL)
    assert magnitude == 1.0


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(("width", "theta", "context"), [(128, 1e6, 32768), (64, 1e4, 2048)])
def test_yarn(width, theta, context, truncate):
    scaling = RopeScaling(rope_type="yarn", factor=4.0, original_max_position_embeddings=context, truncate=truncate)
    frequencies, magnitude = rotary_frequencies(width, theta, scaling)
    expected = reference.yarn_frequencies(width, theta, factor=4.0, context=context, truncate=truncate)
    np.testing.assert_allclose(frequencies, expected, rtol=0, atol=F64_ATOL)
    # 0.1 ln 4 + 1
    np.testing.assert_allclose(magnitude, 1.1386294361119891, rtol=0, atol=F64_ATOL)


def test_yarn_takes_a_magnitude_that_is_given():
    scaling = RopeScaling(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, attention_factor=0.5)
    assert rotary_frequencies(8, 1e4, scaling)[1] == 0.5
