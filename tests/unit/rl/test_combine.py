from __future__ import annotations

import numpy as np
import pytest

from llmstack.rl.combine import Shares, part_factors
from tests.reference.combine import combine
from tests.tolerances import F64_ATOL


def test_by_hand():
    shares = Shares(np.array([2.0, 1.0, -1.0]), np.array([True, False, False]))
    scored = np.array([[1, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 1]], bool)
    factors, there = part_factors(shares, scored)
    # all; without the second 2 and -1 are stretched by 4/3; the first alone by 2; without the first no score
    np.testing.assert_allclose(factors[:, 0], [2, 1, -1], atol=F64_ATOL)
    np.testing.assert_allclose(factors[:, 1], [8 / 3, 0, -4 / 3], atol=F64_ATOL)
    np.testing.assert_allclose(factors[:, 2], [4, 0, 0], atol=F64_ATOL)
    assert not factors[:, 3].any() and there.tolist() == [True, True, True, False]


@pytest.mark.parametrize("seed", range(5))
def test_against_the_oracle(seed):
    rng = np.random.default_rng(seed)
    weights, scores = rng.normal(size=3), rng.normal(size=(3, 40))
    required, scored = rng.random(3) < 0.3, rng.random((3, 40)) < 0.6
    factors, there = part_factors(Shares(weights, required), scored)
    wanted = combine(
        weights.tolist(),
        [[float(s) if ok else None for s, ok in zip(*row, strict=True)] for row in zip(scores, scored, strict=True)],
        required.tolist(),
    )
    assert there.tolist() == [score is not None for score in wanted]
    np.testing.assert_allclose(
        (factors * scores).sum(axis=0)[there], [s for s in wanted if s is not None], atol=F64_ATOL
    )
