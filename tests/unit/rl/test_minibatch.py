from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.rl.minibatch import minibatches


@st.composite
def deals(draw):
    num_rows = draw(st.integers(1, 40))
    return num_rows, draw(st.integers(1, num_rows))


@given(deals(), st.integers(0, 2**31), st.integers(0, 1000), st.integers(0, 8))
def test_every_row_is_trained_exactly_once(deal, seed, iteration, epoch):
    num_rows, num_minibatches = deal
    dealt = minibatches(num_rows, num_minibatches, seed=seed, iteration=iteration, epoch=epoch)
    assert len(dealt) == num_minibatches
    assert {batch.rows_M.shape for batch in dealt} == {(-(-num_rows // num_minibatches),)}
    real = np.concatenate([batch.rows_M[batch.weight_M == 1] for batch in dealt])
    assert sorted(real.tolist()) == list(range(num_rows))
    assert all(batch.weight_M.sum() >= 1 for batch in dealt)
    assert sum(batch.weight_M.sum() for batch in dealt) == num_rows


def test_by_hand():
    # 5 rows in 2 minibatches: 3 rows, then 2 rows and a filler that repeats one of them
    first, second = minibatches(5, 2, seed=1, iteration=0, epoch=0)
    assert first.weight_M.tolist() == [1, 1, 1]
    assert second.weight_M.tolist() == [1, 1, 0]
    assert second.rows_M[2] == second.rows_M[0]


def test_same_place_in_the_run_deals_the_same():
    first, second = (minibatches(16, 4, seed=3, iteration=7, epoch=2) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.rows_M, b.rows_M)


@pytest.mark.parametrize("place", [{"seed": 4}, {"iteration": 8}, {"epoch": 3}], ids=str)
def test_another_place_in_the_run_deals_otherwise(place):
    here = {"seed": 3, "iteration": 7, "epoch": 2}
    orders = [np.concatenate([m.rows_M for m in minibatches(32, 4, **(here | change))]) for change in ({}, place)]
    assert (orders[0] != orders[1]).any()


@pytest.mark.parametrize("num_minibatches", [0, 5])
def test_impossible_deals_are_refused(num_minibatches):
    with pytest.raises(ValueError, match="expected 1 to 4"):
        minibatches(4, num_minibatches, seed=0, iteration=0, epoch=0)
