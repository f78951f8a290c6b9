from __future__ import annotations

import numpy as np
import pytest

from llmstack.registry import AGGREGATIONS
from tests.reference import aggregation as oracle
from tests.tolerances import F32_ATOL

MODES = ("token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm")


def test_these_are_all_modes():
    assert set(MODES) <= set(AGGREGATIONS.names())


def test_by_hand():
    # rows of one token (loss 6), of three (1, 2, 3) and of none, in 4 places
    loss = np.array([[6, 9, 9, 9], [1, 2, 3, 9], [9, 9, 9, 9]])
    mask = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])
    expected = {
        "token_mean": 12 / 4,
        "seq_mean_token_mean": (6 + 2) / 2,
        "seq_mean_token_sum": (6 + 6) / 2,
        "seq_mean_token_sum_norm": (6 + 6) / 2 / 4,
    }
    for mode, value in expected.items():
        made = AGGREGATIONS.get(mode)(mask)
        assert (made.weight_BR * loss).sum() / made.count_B.sum() == pytest.approx(value)


@pytest.mark.parametrize("mode", MODES)
def test_it_matches_the_oracle_however_the_rows_are_cut(mode):
    rng = np.random.default_rng(0)
    loss, mask = rng.normal(size=(12, 5)), np.arange(5) < rng.integers(0, 6, (12, 1))
    made = AGGREGATIONS.get(mode)(mask)
    wanted = getattr(oracle, mode)(loss, mask)
    terms = (made.weight_BR * loss).sum(axis=1) / made.count_B.sum()
    assert terms.sum() == pytest.approx(wanted, abs=F32_ATOL)
    for parts in (2, 3, 4):
        assert sum(part.sum() for part in np.split(terms, parts)) == pytest.approx(wanted, abs=F32_ATOL)
    # the weights of a row do not depend on its neighbours
    np.testing.assert_array_equal(AGGREGATIONS.get(mode)(mask[3:5]).weight_BR, made.weight_BR[3:5])


@pytest.mark.parametrize("mode", MODES)
def test_nothing_to_learn_counts_nothing(mode):
    made = AGGREGATIONS.get(mode)(np.zeros((2, 3)))
    assert not made.weight_BR.any() and not made.count_B.any()
    assert made.weight_BR.dtype == np.float32
