from __future__ import annotations

import numpy as np

from tests.reference.attention import attention
from tests.reference.attention_gradient import attention_gradient
from tests.reference.differences import numerical_gradient
from tests.tolerances import FINITE_DIFFERENCE_ATOL


def test_attention_gradient_matches_differences():
    rng = np.random.default_rng(0)
    segments = np.array([[0, 1, 1, 2]])
    q, upstream = rng.normal(size=(2, 1, 4, 4, 2))
    k, v = rng.normal(size=(2, 1, 4, 2, 2))

    def objective(q_value, k_value, v_value):
        return float((attention(q_value, k_value, v_value, segments) * upstream).sum())

    expected = (
        numerical_gradient(lambda x: objective(x, k, v), q),
        numerical_gradient(lambda x: objective(q, x, v), k),
        numerical_gradient(lambda x: objective(q, k, x), v),
    )
    for ours, numerical in zip(attention_gradient(q, k, v, segments, upstream), expected, strict=True):
        np.testing.assert_allclose(ours, numerical, rtol=0, atol=FINITE_DIFFERENCE_ATOL)
