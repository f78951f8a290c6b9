from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.annotation.agreement import Agreement, agreement
from tests.reference.kappa import cohen_kappa
from tests.tolerances import F64_ATOL


def test_by_hand():
    """25 of 50 say yes, 30 of 50 say yes, 35 agree: p_o = 0.7, p_e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5, kappa = 0.4."""
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    found = agreement(first, second)
    assert (found.items, found.raw, found.kappa) == (50, 0.7, 0.4)
    assert found.confusion == {"yes": {"yes": 20, "no": 5}, "no": {"yes": 10, "no": 15}}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1, max_size=60))
def test_it_is_the_oracle_s(pairs):
    first, second = zip(*pairs, strict=True)
    found, expected = agreement(first, second), cohen_kappa(first, second)
    if found.kappa is None:
        assert np.isnan(expected)
    else:
        np.testing.assert_allclose(found.kappa, expected, atol=F64_ATOL)
        assert -1 <= found.kappa <= found.raw <= 1
    assert agreement(second, first).kappa == found.kappa


@pytest.mark.parametrize(
    ("first", "second", "raw", "kappa"),
    [
        ("ab", "ab", 1.0, 1.0),
        ("ab", "ba", 0.0, -1.0),
        ("aaaa", "aabb", 0.5, 0.0),
        ("aa", "aa", 1.0, None),
        ("aa", "bb", 0.0, 0.0),
        ("a", "a", 1.0, None),
    ],
)
def test_ends_of_the_scale(first, second, raw, kappa):
    found = agreement(list(first), list(second))
    assert (found.raw, found.kappa) == (raw, kappa)


def test_without_an_item():
    assert agreement([], []) == Agreement(0, None, None, {})
