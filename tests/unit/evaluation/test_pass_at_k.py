from __future__ import annotations

import numpy as np
import pytest

from llmstack.evaluation.pass_at_k import pass_at_k, reported_ks
from tests.reference import pass_at_k as oracle
from tests.tolerances import EXACT, F64_ATOL


@pytest.mark.parametrize("num_samples", [1, 2, 5, 8])
def test_it_is_the_share_of_subsets_with_a_right_answer(num_samples):
    for num_right in range(num_samples + 1):
        right = [index < num_right for index in range(num_samples)]
        for k in range(1, num_samples + 1):
            expected = oracle.pass_at_k(right, k)
            np.testing.assert_allclose(pass_at_k(num_samples, num_right, k), expected, rtol=0, atol=F64_ATOL)


def test_by_hand():
    """One right answer of four: two drawn miss it with chance 3/4 * 2/3."""
    np.testing.assert_allclose(pass_at_k(4, 1, 2), 0.5, rtol=0, atol=EXACT)
    np.testing.assert_allclose(pass_at_k(4, 1, 1), 0.25, rtol=0, atol=EXACT)


def test_powers_of_two_and_the_number_itself_are_reported():
    assert [reported_ks(n) for n in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]
