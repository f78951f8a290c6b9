from __future__ import annotations

import numpy as np
import pytest

from llmstack.losses.ppo import RATIO_EDGES, PolicyLoss, ValueLoss
from tests.helpers.cells import Differentiated, differentiate, run
from tests.reference import ppo
from tests.reference.differences import numerical_gradient
from tests.tolerances import EXACT, F32_ATOL, F32_RTOL, GRADIENT_ATOL

CLIPS = (
    {"clip_low": 0.2, "clip_high": 0.3},
    {"clip_low": 0.1, "clip_high": 0.1, "dual_clip": 1.5},
)


def _rows(values):
    return np.array(values, np.float32).reshape(1, -1)


def test_policy_by_hand():
    # ratio, advantage -> cost with clips 0.8 and 1.2:  2, 1 -> -1.2 (held)   2, -1 -> 2 (free)
    # 0.5, 1 -> -0.5 (free)   0.5, -1 -> 0.8 (held)   1, 3 -> -3   and a masked token
    ratio, advantage = [2, 2, 0.5, 0.5, 1, 9], [1, -1, 1, -1, 3, 9]
    zeros, mask = np.zeros((1, 6)), _rows([1, 1, 1, 1, 1, 0])
    sums = run(PolicyLoss(0.2, 0.2), _rows(np.log(ratio)), zeros, zeros, _rows(advantage), zeros, mask)
    loss, count, outside, kl, entropy, ratios, squares, *below = sums
    np.testing.assert_allclose(loss, -1.2 + 2 - 0.5 + 0.8 - 3, rtol=F32_RTOL, atol=F32_ATOL)
    assert (count, outside, entropy) == (5, 4, 0)
    # rho - 1 - ln rho: twice 1 - ln 2 and twice -0.5 + ln 2
    np.testing.assert_allclose(kl, 1.0, rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose((ratios, squares), (6.0, 2.5), rtol=F32_RTOL, atol=F32_ATOL)
    # two ratios of 0.5, one of 1, two of 2, counted up to 0.5, 0.8, 0.95, 1.05, 1.25 and 2
    assert below[1:5] == [2, 2, 3, 3]


def test_dual_clip_by_hand():
    # ratio 10, advantage -1: 10 without, 3 with a dual clip of 3; a positive advantage is not touched
    zeros, ones = np.zeros((1, 2)), np.ones((1, 2))
    logp, advantage = _rows(np.log([10, 10])), _rows([-1, 1])
    loss, *_ = run(PolicyLoss(0.2, 0.2, dual_clip=3.0), logp, zeros, zeros, advantage, zeros, ones)
    np.testing.assert_allclose(loss, 3 - 1.2, rtol=F32_RTOL, atol=F32_ATOL)


def test_entropy_and_kl_terms_by_hand():
    # one token at ratio 1, advantage 0: -0.1 * 2 + 0.5 * (1 - (-1))^2 / 2
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    cell = PolicyLoss(0.2, 0.2, entropy_coef=0.1, kl_coef=0.5)
    loss, _, _, kl_old_new, entropy, *_ = run(cell, one, one, -one, zero, 2 * one, one)
    np.testing.assert_allclose(loss, -0.2 + 1.0, rtol=F32_RTOL, atol=F32_ATOL)
    assert kl_old_new == 0 and entropy == 2


def _policy_inputs(rng):
    shape = (3, 7)
    logp = rng.normal(-2.0, 0.5, shape)
    old_logp = logp + rng.normal(0.0, 0.4, shape)
    mask = (rng.random(shape) < 0.7).astype(np.float32)
    others = (logp + rng.normal(0.0, 0.3, shape), rng.normal(size=shape), rng.random(shape) * 3)
    return tuple(np.float32(x) for x in (logp, old_logp, *others, mask))


@pytest.mark.parametrize("clips", CLIPS, ids=["separate_bounds", "dual_clip"])
def test_policy_matches_the_oracle(clips):
    logp, old_logp, ref_logp, advantage, entropy, mask = inputs = _policy_inputs(np.random.default_rng(0))
    bounds = {key: clips[key] for key in ("clip_low", "clip_high")}
    entropy_coef, kl_coef = 0.05, 0.2
    cell = PolicyLoss(**clips, entropy_coef=entropy_coef, kl_coef=kl_coef)
    sums, gradients, _ = differentiate(cell, inputs, (1.0, *[0.0] * 12), wrt=(0, 4))
    expected, count = ppo.policy_loss(logp, old_logp, advantage, mask, **clips)
    expected += kl_coef * ppo.in_loss_kl(logp, ref_logp, mask)[0] - entropy_coef * ppo.entropy_bonus(entropy, mask)[0]
    expected_sums = (
        expected,
        count,
        count * ppo.clip_fraction(logp, old_logp, mask, **bounds),
        count * ppo.approx_kl(logp, old_logp, mask),
        ppo.entropy_bonus(entropy, mask)[0],
        (np.exp(np.float64(logp) - old_logp) * mask).sum(),
        ((np.exp(np.float64(logp) - old_logp) - 1) ** 2 * mask).sum(),
        *(((np.exp(np.float64(logp) - old_logp) <= edge) * mask).sum() for edge in RATIO_EDGES),
    )
    np.testing.assert_allclose(sums, expected_sums, rtol=F32_RTOL, atol=F32_ATOL)
    of_logp = ppo.policy_gradient(logp, old_logp, advantage, mask, **clips)
    of_logp += kl_coef * (np.float64(logp) - ref_logp) * mask
    np.testing.assert_allclose(gradients[0], of_logp, rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(gradients[1], -entropy_coef * mask, rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(gradients[0][mask == 0], 0.0, rtol=0, atol=EXACT)


def test_before_the_first_update_ratio_is_one_and_the_gradient_that_of_reinforce():
    logp, _, _, advantage, entropy, mask = _policy_inputs(np.random.default_rng(1))
    inputs = (logp, logp, logp, advantage, entropy, mask)
    sums, (gradient,), _ = differentiate(PolicyLoss(0.2, 0.2), inputs, (1.0, *[0.0] * 12))
    assert sums[2] == 0 and sums[3] == 0
    np.testing.assert_allclose(gradient, -advantage * mask, rtol=0, atol=GRADIENT_ATOL)


def test_weights_weigh_the_loss_and_leave_the_measurements_alone():
    logp, old_logp, ref_logp, advantage, entropy, mask = _policy_inputs(np.random.default_rng(2))
    weight = mask * np.array([[0.25], [1.0], [3.0]], np.float32)
    inputs = (logp, old_logp, ref_logp, advantage, entropy)
    clips = {"clip_low": 0.2, "clip_high": 0.3}
    plain = run(PolicyLoss(**clips), *inputs, mask)
    weighed = run(PolicyLoss(**clips), *inputs, weight)
    expected, _ = ppo.policy_loss(logp, old_logp, advantage, weight, **clips)
    np.testing.assert_allclose(weighed[0], expected, rtol=F32_RTOL, atol=F32_ATOL)
    assert weighed[1:] == plain[1:]


def test_one_ratio_an_answer_by_hand():
    # log-ratios ln 2 and 0 and a pad of ln 9: the answer's ratio is 2 ** 0.5, held at 1.2; the other answer's is 1
    log_ratio = np.log([[2.0, 1.0, 9.0], [1.0, 1.0, 1.0]])
    zeros, mask = np.zeros((2, 3)), np.array([[1, 1, 0], [1, 1, 1]])
    advantage = np.array([[1.0] * 3, [2.0] * 3])
    cell = PolicyLoss(0.2, 0.2, answer_len=3)
    loss, count, outside, _, _, ratios, *_ = run(cell, log_ratio, zeros, zeros, advantage, zeros, mask)
    np.testing.assert_allclose(loss, -2 * 1.2 - 3 * 2.0, rtol=F32_RTOL, atol=F32_ATOL)
    assert (count, outside) == (5, 2)
    np.testing.assert_allclose(ratios, 2 * 2**0.5 + 3, rtol=F32_RTOL, atol=F32_ATOL)


def test_one_ratio_an_answer_matches_the_oracle():
    logp, old_logp, ref_logp, advantage, entropy, mask = _policy_inputs(np.random.default_rng(3))
    advantage[:] = advantage[:, :1]
    inputs = [x.reshape(-1) for x in (logp, old_logp, ref_logp, advantage, entropy, mask)]
    cell = PolicyLoss(0.05, 0.1, answer_len=7)
    sums, (gradient,), _ = differentiate(cell, inputs, (1.0, *[0.0] * 12))
    clips = {"clip_low": 0.05, "clip_high": 0.1}
    expected, _ = ppo.sequence_policy_loss(logp, old_logp, advantage, mask, **clips)
    np.testing.assert_allclose(sums[0], expected, rtol=F32_RTOL, atol=F32_ATOL)
    of_logp = numerical_gradient(
        lambda x: ppo.sequence_policy_loss(x, old_logp, advantage, mask, **clips)[0], logp.astype(np.float64)
    )
    np.testing.assert_allclose(gradient.reshape(3, 7), of_logp, rtol=0, atol=GRADIENT_ATOL)


def test_a_huge_log_ratio_does_not_overflow():
    zeros, ones = np.zeros((1, 2)), np.ones((1, 2))
    inputs = (_rows([300, -300]), zeros, zeros, _rows([1, -1]), zeros, ones)
    sums, (gradient,), _ = differentiate(PolicyLoss(0.2, 0.2), inputs, (1.0, *[0.0] * 12))
    assert np.isfinite(sums).all() and np.isfinite(gradient).all()


def test_value_by_hand():
    # errors 1 and (3 - 1): unclipped (1 + 4) / 2; a masked token
    value, returns, mask = _rows([1, 3, 9]), _rows([0, 1, 0]), _rows([1, 1, 0])
    loss, count = run(ValueLoss(), value, np.zeros((1, 3)), returns, mask)
    assert (loss, count) == (2.5, 2)
    # value 3 clipped to 0.5 around 0 is nearer to the return 1: the larger error stays; value 1 to 0.5: 1 stays
    assert run(ValueLoss(0.5), value, np.zeros((1, 3)), returns, mask)[0] == 2.5
    # old value 2, new value 1 on the return: clipped to 1.5 the error is 0.25 / 2
    assert run(ValueLoss(0.5), _rows([1]), _rows([2]), _rows([1]), _rows([1]))[0] == 0.125


@pytest.mark.parametrize("value_clip", [None, 0.2])
def test_value_matches_the_oracle(value_clip):
    rng = np.random.default_rng(0)
    value, noise, returns = rng.normal(size=(3, 4, 5)).astype(np.float32)
    old_value, mask = value + 0.3 * noise, (rng.random((4, 5)) < 0.7).astype(np.float32)
    (loss, count), (gradient,), _ = Differentiated(ValueLoss(value_clip), 4)(
        (value, old_value, returns, mask), (1.0, 0.0)
    )
    expected, expected_count = ppo.value_loss(value, old_value, returns, mask, value_clip)
    np.testing.assert_allclose(loss, expected, rtol=F32_RTOL, atol=F32_ATOL)
    assert count == expected_count
    expected_gradient = ppo.value_gradient(value, old_value, returns, mask, value_clip)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=GRADIENT_ATOL)
