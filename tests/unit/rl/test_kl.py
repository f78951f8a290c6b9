from __future__ import annotations

import numpy as np

from llmstack.rl import kl
from tests.reference import kl as reference
from tests.reference.differences import numerical_gradient
from tests.reference.logprob import log_softmax
from tests.tolerances import F32_ATOL, F32_RTOL, F64_ATOL, FINITE_DIFFERENCE_ATOL, ON_POLICY_ATOL, STANDARD_ERRORS

# A categorical over five tokens and its reference.
LOGITS = np.array([0.3, -1.2, 2.0, 0.0, 0.7])
REF_LOGITS = np.array([-0.5, 0.4, 1.0, 0.9, 0.0])


def test_by_hand():
    # policy 1/2, reference 1/4: k1 = log 2, k3 = 1/2 - 1 + log 2
    logp, ref, mask = np.log([[0.5, 0.5]]), np.log([[0.25, 0.25]]), np.array([[1, 0]])
    np.testing.assert_allclose(kl.k1(logp, ref, mask), [[np.log(2), 0]], atol=F32_ATOL)
    np.testing.assert_allclose(kl.k3(logp, ref, mask), [[np.log(2) - 0.5, 0]], atol=F32_ATOL)
    np.testing.assert_allclose(kl.sequence_kl(logp, ref, np.ones((1, 2))), [2 * np.log(2)], atol=F32_ATOL)
    np.testing.assert_allclose(kl.token_kl(logp, ref, np.ones((1, 2))), np.log(2), atol=F32_ATOL)


def test_equals_the_oracle():
    rng = np.random.default_rng(1)
    logp, ref = rng.normal(-2, 1, (2, 4, 6))
    mask = rng.integers(0, 2, (4, 6))
    np.testing.assert_allclose(kl.k1(logp, ref, mask), mask * reference.k1(logp, ref), atol=F32_ATOL)
    np.testing.assert_allclose(kl.k3(logp, ref, mask), mask * reference.k3(logp, ref), atol=F32_ATOL, rtol=F32_RTOL)
    expected = (mask * reference.k1(logp, ref)).sum(axis=1)
    np.testing.assert_allclose(kl.sequence_kl(logp, ref, mask), expected, atol=F32_ATOL)
    np.testing.assert_allclose(kl.token_kl(logp, ref, mask), expected.sum() / mask.sum(), atol=F64_ATOL)


def test_policy_equal_to_reference_has_no_kl():
    logp = np.random.default_rng(2).normal(-2, 1, (4, 6)).astype(np.float32)
    for estimate in (kl.k1, kl.k3, kl.sequence_kl, kl.token_kl):
        assert np.abs(estimate(logp, logp, np.ones((4, 6)))).max() < ON_POLICY_ATOL


def test_pads_may_hold_anything():
    logp, ref, mask = np.array([[-1.0, np.nan]]), np.array([[-2.0, -np.inf]]), np.array([[1, 0]])
    for estimate in (kl.k1, kl.k3, kl.sequence_kl, kl.token_kl):
        assert np.isfinite(estimate(logp, ref, mask)).all()
    assert kl.token_kl(logp, ref, np.zeros((1, 2))) == 0.0


def test_one_absurd_token_stays_finite():
    assert np.isfinite(kl.k3(np.array([[-500.0]]), np.array([[0.0]]), np.ones((1, 1)))).all()


def test_sampled_mean_is_the_kl_and_never_clearly_negative():
    logp, ref = log_softmax(LOGITS), log_softmax(REF_LOGITS)
    drawn = np.random.default_rng(3).choice(5, size=(100, 100), p=np.exp(logp))
    mask = np.ones(drawn.shape)
    exact = reference.exact_kl(LOGITS, REF_LOGITS)
    for estimate in (kl.k1, kl.k3):
        samples = estimate(logp[drawn], ref[drawn], mask).astype(np.float64)
        error = samples.std() / np.sqrt(samples.size)
        assert samples.mean() >= -STANDARD_ERRORS * error
        assert abs(samples.mean() - exact) < STANDARD_ERRORS * error
    assert kl.k3(logp[drawn], ref[drawn], mask).min() >= 0.0


def test_sampled_mean_of_close_policies_is_never_clearly_negative():
    close = log_softmax(LOGITS + 0.01 * REF_LOGITS)
    logp = log_softmax(LOGITS)
    drawn = np.random.default_rng(4).choice(5, size=(100, 100), p=np.exp(logp))
    samples = kl.k1(logp[drawn], close[drawn], np.ones(drawn.shape))
    assert samples.mean() >= -STANDARD_ERRORS * samples.std() / 100


def test_analytic_gradients_of_both_kls():
    reverse = numerical_gradient(lambda x: reference.exact_kl(x, REF_LOGITS), LOGITS)
    np.testing.assert_allclose(reference.reverse_kl_gradient(LOGITS, REF_LOGITS), reverse, atol=FINITE_DIFFERENCE_ATOL)
    forward = numerical_gradient(lambda x: reference.exact_kl(REF_LOGITS, x), LOGITS)
    np.testing.assert_allclose(reference.forward_kl_gradient(LOGITS, REF_LOGITS), forward, atol=FINITE_DIFFERENCE_ATOL)


def test_k1_as_a_loss_has_no_gradient():
    got = reference.expected_estimator_gradient(LOGITS, REF_LOGITS, lambda d: 1.0)
    np.testing.assert_allclose(got, 0.0, atol=F64_ATOL)


def test_k2_as_a_loss_has_the_gradient_of_kl_policy_reference():
    got = reference.expected_estimator_gradient(LOGITS, REF_LOGITS, lambda d: d)
    np.testing.assert_allclose(got, reference.reverse_kl_gradient(LOGITS, REF_LOGITS), atol=F64_ATOL)


def test_k3_as_a_loss_has_the_gradient_of_kl_reference_policy():
    got = reference.expected_estimator_gradient(LOGITS, REF_LOGITS, lambda d: 1.0 - np.exp(-d))
    np.testing.assert_allclose(got, reference.forward_kl_gradient(LOGITS, REF_LOGITS), atol=F64_ATOL)


def test_k1_in_the_reward_has_the_gradient_of_kl_policy_reference():
    # the score-function estimator with the reward -k1: E[-k1 grad logp] = -grad KL(policy || reference)
    got = reference.expected_estimator_gradient(LOGITS, REF_LOGITS, lambda d: -d)
    np.testing.assert_allclose(got, -reference.reverse_kl_gradient(LOGITS, REF_LOGITS), atol=F64_ATOL)


def test_k3_in_the_reward_is_biased():
    got = reference.expected_estimator_gradient(LOGITS, REF_LOGITS, lambda d: np.exp(-d) - 1 + d)
    assert np.abs(got - reference.reverse_kl_gradient(LOGITS, REF_LOGITS)).max() > 0.01
