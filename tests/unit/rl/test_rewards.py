from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.rl.kl import sequence_kl
from llmstack.rl.rewards import end_answers, last_real_token, shaped_scores, token_rewards
from tests.reference import rewards as reference
from tests.reference.logprob import log_softmax
from tests.tolerances import EXACT, F32_ATOL, F32_RTOL, STANDARD_ERRORS


def rollout(seed, num_rows=4, num_tokens=6):
    """logp, ref_logp and a mask of one run per row that starts and stops anywhere."""
    rng = np.random.default_rng(seed)
    logp, ref = rng.normal(-2.0, 1.0, (2, num_rows, num_tokens)).astype(np.float32)
    start = rng.integers(0, num_tokens, num_rows)
    stop = rng.integers(start, num_tokens + 1)
    steps = np.arange(num_tokens)
    mask = ((steps >= start[:, None]) & (steps < stop[:, None])).astype(np.float32)
    return logp, ref, mask, rng.normal(size=num_rows).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.floats(0, 2))
def test_equals_the_oracle(seed, beta):
    logp, ref, mask, score = rollout(seed)
    expected = reference.token_rewards(logp, ref, mask, score, beta)
    np.testing.assert_allclose(token_rewards(logp, ref, mask, score, beta=beta), expected, atol=F32_ATOL, rtol=F32_RTOL)


def test_by_hand():
    # pads on both sides; beta 0.5; logp - ref = 1 and -2; the score 3 belongs to the second real token
    logp, ref = np.array([[9.0, -1.0, -3.0, 9.0]]), np.array([[9.0, -2.0, -1.0, 0.0]])
    got = token_rewards(logp, ref, np.array([[0, 1, 1, 0]]), np.array([3.0]), beta=0.5)
    np.testing.assert_allclose(got, [[0.0, -0.5, 4.0, 0.0]], atol=F32_ATOL)


def test_answer_that_fills_the_row_and_answer_of_one_token():
    zeros = np.zeros((2, 3))
    got = token_rewards(zeros, zeros, np.array([[1, 1, 1], [1, 0, 0]]), np.array([1.0, 2.0]), beta=1.0)
    np.testing.assert_array_equal(got, [[0, 0, 1], [2, 0, 0]])


def test_row_without_tokens_gets_nothing():
    got = token_rewards(np.zeros((1, 2)), np.ones((1, 2)), np.zeros((1, 2)), np.array([7.0]), beta=1.0)
    np.testing.assert_array_equal(got, [[0, 0]])


def test_moving_away_from_the_reference_lowers_the_reward():
    logp, ref, mask, score = rollout(5)
    mask = np.ones_like(mask)
    nearer = token_rewards(logp, ref, mask, score, beta=0.1)
    further = token_rewards(logp + 0.5, ref, mask, score, beta=0.1)
    assert (further < nearer).all()
    np.testing.assert_allclose(nearer - further, 0.05, atol=F32_ATOL)


def test_policy_that_moves_towards_a_token_is_paid_less_for_it():
    ref, towards = log_softmax(np.zeros(5)), log_softmax(np.eye(5)[2])
    rewards = token_rewards(towards[None, [2]], ref[None, [2]], np.ones((1, 1)), np.zeros(1), beta=0.2)
    assert rewards[0, 0] < 0.0


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(0, 3))
def test_padding_and_order_of_rows_change_nothing(seed, left, right):
    logp, ref, mask, score = rollout(seed)
    expected = token_rewards(logp, ref, mask, score, beta=0.3)
    pad = ((0, 0), (left, right))
    padded = [np.pad(x, pad, constant_values=fill) for x, fill in ((logp, np.nan), (ref, -np.inf), (mask, 0))]
    got = token_rewards(*padded, score, beta=0.3)
    np.testing.assert_array_equal(got[:, left : left + mask.shape[1]], expected)
    assert np.abs(got).sum() == pytest.approx(np.abs(expected).sum(), abs=EXACT, rel=F32_RTOL)
    order = np.random.default_rng(seed).permutation(len(score))
    np.testing.assert_array_equal(
        token_rewards(logp[order], ref[order], mask[order], score[order], beta=0.3), expected[order]
    )


def test_rewards_of_an_answer_sum_to_score_minus_beta_kl():
    logp, ref, mask, score = rollout(11, num_rows=32)
    total = token_rewards(logp, ref, mask, score, beta=0.3).sum(axis=1)
    expected = np.where(mask.any(axis=1), score, 0.0) - 0.3 * sequence_kl(logp, ref, mask)
    np.testing.assert_allclose(total, expected, atol=F32_ATOL, rtol=F32_RTOL)


def test_mean_kl_penalty_of_the_policy_s_own_tokens_is_not_positive():
    rng = np.random.default_rng(6)
    logits, ref_logits = rng.normal(size=(2, 7))
    logp, ref = log_softmax(logits), log_softmax(ref_logits)
    drawn = rng.choice(7, size=(100, 100), p=np.exp(logp))
    rewards = token_rewards(logp[drawn], ref[drawn], np.ones(drawn.shape), np.zeros(100), beta=1.0)
    assert rewards.mean() <= STANDARD_ERRORS * rewards.std() / 100


def test_last_real_token():
    last, present = last_real_token(np.array([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]))
    assert last.tolist() == [2, 3, 0, 0]
    assert present.tolist() == [True, True, False, True]


def test_cut_off_answer_is_bootstrapped_and_its_score_withheld():
    score, bootstrap = end_answers(
        np.array([1.0, 2.0]), np.array([1, 0]), next_value_B=np.array([5.0, 6.0]), missing_eos_score=None
    )
    assert score.tolist() == [1.0, 0.0]
    assert bootstrap.tolist() == [0.0, 6.0]


def test_cut_off_answer_is_penalised():
    score, bootstrap = end_answers(
        np.array([1.0, 2.0]), np.array([1, 0]), next_value_B=np.array([5.0, 6.0]), missing_eos_score=-3.0
    )
    assert score.tolist() == [1.0, -3.0]
    assert bootstrap.tolist() == [0.0, 0.0]


def test_value_after_a_finished_answer_may_be_anything():
    _, bootstrap = end_answers(np.array([1.0]), np.array([1]), next_value_B=np.array([np.nan]), missing_eos_score=None)
    assert bootstrap.tolist() == [0.0]


def test_scores_are_scaled_and_then_clipped_and_keep_their_sign():
    assert shaped_scores(np.array([3.0, -8.0, 0.5]), std=2.0, clip=2.5).tolist() == [1.5, -2.5, 0.25]
    assert shaped_scores(np.array([3.0, -8.0]), std=1.0, clip=None).tolist() == [3.0, -8.0]
