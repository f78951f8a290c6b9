from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.rl.gae import gae
from llmstack.rl.whiten import whiten
from tests.reference import gae as reference
from tests.tolerances import F32_ATOL, F32_RTOL
from tests.unit.rl.test_rewards import rollout

UNIT = st.floats(0.01, 1.0)


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=F32_ATOL, rtol=F32_RTOL)


@given(st.integers(0, 2**32 - 1), UNIT, UNIT)
def test_equals_the_definition(seed, gamma, lam):
    reward, value, mask, bootstrap = rollout(seed)
    expected = reference.gae(reward, value, mask, bootstrap, gamma=gamma, lam=lam)
    got = gae(reward, value, mask, bootstrap, gamma=gamma, lam=lam)
    close(got[0], expected[0])
    close(got[1], expected[1])


def test_by_hand():
    # gamma = lam = 1/2, r = (0, 0, 8), V = (1, 2, 4): deltas (0, 0, 4), advantages (1/4, 1, 4)
    advantage, returns = gae(
        np.array([[0, 0, 8.0]]), np.array([[1, 2, 4.0]]), np.ones((1, 3)), np.zeros(1), gamma=0.5, lam=0.5
    )
    close(advantage, [[0.25, 1.0, 4.0]])
    close(returns, [[1.25, 3.0, 8.0]])


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_three_token_chain_with_the_true_values_has_no_advantage(gamma, lam):
    # Every policy earns 1, 2, 4 in turn, so V before token t is what is still to come; one place off and A is not 0.
    reward = np.array([[1.0, 2.0, 4.0]])
    value = np.array([[1 + 2 * gamma + 4 * gamma**2, 2 + 4 * gamma, 4.0]])
    advantage, returns = gae(reward, value, np.ones((1, 3)), np.zeros(1), gamma=gamma, lam=lam)
    close(advantage, 0.0)
    close(returns, value)
    shifted, _ = gae(reward, np.roll(value, 1, axis=1), np.ones((1, 3)), np.zeros(1), gamma=gamma, lam=lam)
    assert np.abs(shifted).max() > 1.0


def test_cut_off_chain_with_the_true_values_has_no_advantage():
    # The same chain stopped after two tokens, in a state worth 4; taking that for an ending would cost 4.
    reward, value, mask = np.array([[1.0, 2.0, 9.0]]), np.array([[7.0, 6.0, 9.0]]), np.array([[1, 1, 0]])
    advantage, _ = gae(reward, value, mask, np.array([4.0]), gamma=1.0, lam=0.95)
    close(advantage, 0.0)
    ended, _ = gae(reward, value, mask, np.array([0.0]), gamma=1.0, lam=1.0)
    close(ended, [[-4.0, -4.0, 0.0]])


def test_lambda_1_is_the_monte_carlo_return():
    reward, value, mask, _ = rollout(3)
    _, returns = gae(reward, value, np.ones_like(mask), np.zeros(4), gamma=1.0, lam=1.0)
    close(returns, np.cumsum(reward[:, ::-1], axis=1)[:, ::-1])


def test_lambda_0_is_the_one_step_error():
    reward, value, mask, bootstrap = rollout(4)
    _, returns = gae(reward, value, np.ones_like(mask), bootstrap, gamma=0.9, lam=0.0)
    close(returns, reward + 0.9 * np.column_stack([value[:, 1:], bootstrap]))


def test_one_token_answer():
    advantage, returns = gae(np.array([[3.0]]), np.array([[1.0]]), np.ones((1, 1)), np.zeros(1), gamma=0.9, lam=0.9)
    close(advantage, [[2.0]])
    close(returns, [[3.0]])


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(0, 3))
def test_padding_and_order_of_rows_change_nothing(seed, left, right):
    reward, value, mask, bootstrap = rollout(seed)
    expected = gae(reward, value, mask, bootstrap, gamma=0.97, lam=0.9)
    pad = ((0, 0), (left, right))
    padded = [np.pad(x, pad, constant_values=fill) for x, fill in ((reward, np.nan), (value, np.inf), (mask, 0))]
    got = gae(*padded, bootstrap, gamma=0.97, lam=0.9)
    order = np.random.default_rng(seed).permutation(len(mask))
    permuted = gae(reward[order], value[order], mask[order], bootstrap[order], gamma=0.97, lam=0.9)
    for i in range(2):
        np.testing.assert_array_equal(got[i][:, left : left + mask.shape[1]], expected[i])
        assert not got[i][:, :left].any() and not got[i][:, left + mask.shape[1] :].any()
        np.testing.assert_array_equal(permuted[i], expected[i][order])


def test_batch_of_cut_off_answers_only_is_finite():
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 4, 8))
    advantage, returns = gae(reward, value, np.ones((4, 8)), rng.normal(size=4), gamma=1.0, lam=0.95)
    white = whiten(advantage, np.ones((4, 8)))
    assert np.isfinite(advantage).all() and np.isfinite(returns).all() and np.isfinite(white).all()


def test_returns_do_not_depend_on_whitening():
    reward, value, mask, bootstrap = rollout(9)
    advantage, returns = gae(reward, value, mask, bootstrap, gamma=1.0, lam=0.95)
    close(returns, advantage + value * mask)
