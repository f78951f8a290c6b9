from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.preference import (
    HingeConfig,
    IpoConfig,
    KtoConfig,
    OrpoConfig,
    RobustConfig,
    SigmoidConfig,
    SimpoConfig,
)
from llmstack.losses.preference import (
    HingeLoss,
    IpoLoss,
    KtoLoss,
    NegLogSigmoid,
    OrpoLoss,
    RobustLoss,
    SigmoidLoss,
    SimpoLoss,
)
from tests.helpers.cells import differentiate, eager, run
from tests.reference import preference as oracle
from tests.reference.differences import numerical_gradient
from tests.tolerances import F32_ATOL, F32_RTOL, GRADIENT_ATOL

TOKENS = np.array([3, 5, 2, 4, 6, 2, 7, 3], np.float32)
B = 4


def sigmoid(smoothing=0.0, beta=0.1):
    return SigmoidLoss(SigmoidConfig(name="sigmoid", beta=beta, label_smoothing=smoothing))


def of_pairs(formula, *, reference=True, average=False, **options):
    """An oracle of pairs as a function of the log-probabilities of all rows."""

    def value(logp, ref_logp):
        if average:
            logp, ref_logp = logp / TOKENS, ref_logp / TOKENS
        halves = (logp[:B], logp[B:], *((ref_logp[:B], ref_logp[B:]) if reference else (TOKENS[:B], TOKENS[B:])))
        return float(formula(*halves, **options).sum())

    return value


CASES = {
    "sigmoid": (sigmoid(), of_pairs(oracle.sigmoid, beta=0.1)),
    "smoothed": (sigmoid(0.2), of_pairs(oracle.sigmoid, beta=0.1, label_smoothing=0.2)),
    "robust": (
        RobustLoss(RobustConfig(name="robust", beta=0.3, label_smoothing=0.2)),
        of_pairs(oracle.robust, beta=0.3, label_smoothing=0.2),
    ),
    "hinge": (HingeLoss(HingeConfig(name="hinge", beta=0.2)), of_pairs(oracle.hinge, beta=0.2)),
    "ipo": (IpoLoss(IpoConfig(name="ipo", beta=0.5)), of_pairs(oracle.ipo, beta=0.5)),
    "ipo of means": (
        IpoLoss(IpoConfig(name="ipo", beta=0.5, average=True)),
        of_pairs(oracle.ipo, beta=0.5, average=True),
    ),
    "orpo": (OrpoLoss(OrpoConfig(name="orpo", weight=0.4)), of_pairs(oracle.orpo, reference=False, weight=0.4)),
    "simpo": (
        SimpoLoss(SimpoConfig(name="simpo", beta=2.0, gamma=0.5)),
        of_pairs(oracle.simpo, reference=False, beta=2.0, gamma=0.5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loss_of_pairs_matches_its_oracle(name):
    cell, formula = CASES[name]
    rng = np.random.default_rng(1)
    logp = (-TOKENS * rng.uniform(0.2, 2.0, 2 * B)).astype(np.float32)
    ref_logp = (logp + rng.normal(scale=2.0, size=2 * B)).astype(np.float32)
    inputs = (logp, ref_logp, TOKENS, np.zeros(2 * B), 0.0)
    with eager():
        (total, right, reward), (gradient,), _ = differentiate(cell, inputs, (1.0, 0.0, np.zeros(2 * B)))
    wide, wide_ref = logp.astype(np.float64), ref_logp.astype(np.float64)
    np.testing.assert_allclose(total, formula(wide, wide_ref), rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(
        gradient, numerical_gradient(lambda x: formula(x, wide_ref), wide), rtol=F32_RTOL, atol=GRADIENT_ATOL
    )
    assert right == (reward[:B] > reward[B:]).sum()


def test_kto_matches_its_oracle():
    rng = np.random.default_rng(2)
    logp, ref_logp = rng.normal(scale=4.0, size=(2, 8)).astype(np.float32)
    good, baseline = np.array([1, 0, 0, 1, 1, 0, 1, 0]), 0.75
    options = {"beta": 0.3, "good_weight": 1.5, "bad_weight": 0.5}
    cell = KtoLoss(KtoConfig(name="kto", **options))
    with eager():
        (total, right, reward), (gradient,), _ = differentiate(
            cell, (logp, ref_logp, TOKENS, good.astype(np.float32), baseline), (1.0, 0.0, np.zeros(8))
        )

    def formula(x):
        return float(oracle.kto(x, ref_logp.astype(np.float64), good, baseline, **options).sum())

    wide = logp.astype(np.float64)
    np.testing.assert_allclose(total, formula(wide), rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(gradient, numerical_gradient(formula, wide), rtol=0, atol=GRADIENT_ATOL)
    np.testing.assert_allclose(reward, 0.3 * (logp - ref_logp), rtol=F32_RTOL, atol=F32_ATOL)
    assert right == ((logp - ref_logp > baseline) == good).sum()


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        # beta 1/2 and a lead of 2 ln 3 in log-ratio: sigmoid(ln 3) = 3/4
        (sigmoid(beta=0.5), np.log(4 / 3)),
        (sigmoid(0.25, beta=0.5), np.log(4 / 3) + 0.25 * np.log(3)),
        # e / (1 - 2 e) = 1/2
        (RobustLoss(RobustConfig(name="robust", beta=0.5, label_smoothing=0.25)), np.log(4 / 3) - 0.5 * np.log(3)),
        (HingeLoss(HingeConfig(name="hinge", beta=0.25)), 1 - 0.5 * np.log(3)),
        (IpoLoss(IpoConfig(name="ipo", beta=0.25)), (2 * np.log(3) - 2) ** 2),
        # means of -ln 2 and -ln 4: odds 1 and 1/3
        (OrpoLoss(OrpoConfig(name="orpo", weight=2.0)), np.log(2) + 2 * np.log(4 / 3)),
        # beta 1 leads by ln 2, gamma takes it away
        (SimpoLoss(SimpoConfig(name="simpo", beta=1.0, gamma=float(np.log(2)))), np.log(2)),
    ],
)
def test_by_hand(cell, expected):
    # 2 and 3 tokens of probability 1/2 and 1/4
    logp = np.array([-2 * np.log(2), -3 * np.log(4)])
    ref_logp = logp + np.array([-np.log(3), np.log(3)])
    with eager():
        total, right, _ = run(cell, logp, ref_logp, [2.0, 3.0], [0.0, 0.0], 0.0)
    np.testing.assert_allclose(total, expected, rtol=F32_RTOL, atol=F32_ATOL)
    assert right == 1


def test_kto_by_hand():
    # beta 1, z0 = 1; log-ratios of 1 + ln 3 (good, 1 - 3/4) and 1 (bad, 1 - 1/2), weights 2 and 4
    cell = KtoLoss(KtoConfig(name="kto", beta=1.0, good_weight=2.0, bad_weight=4.0))
    with eager():
        total, right, _ = run(cell, [1 + np.log(3), 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0], 1.0)
    np.testing.assert_allclose(total, 2 / 4 + 4 / 2, rtol=F32_RTOL)
    assert right == 1.5


@pytest.mark.parametrize("beta", [0.1, 0.7])
def test_where_policy_and_reference_agree_dpo_costs_log_2_and_pulls_with_half_beta(beta):
    logp = np.array([-3.0, -8.0, -4.0, -2.0])
    with eager():
        (total, right, reward), (gradient,), _ = differentiate(
            sigmoid(beta=beta), (logp, logp, np.ones(4), np.zeros(4), 0.0), (1.0, 0.0, np.zeros(4))
        )
    np.testing.assert_allclose(total, 2 * np.log(2), rtol=F32_RTOL)
    np.testing.assert_allclose(gradient, beta / 2 * np.array([-1, -1, 1, 1]), atol=GRADIENT_ATOL, rtol=0)
    expected = np.concatenate(oracle.sigmoid_gradient(logp[:2], logp[2:], logp[:2], logp[2:], beta=beta))
    np.testing.assert_allclose(gradient, expected, atol=GRADIENT_ATOL, rtol=0)
    assert (reward == 0).all() and right == 1.0  # ties count half


def test_far_leads_stay_finite_and_keep_their_gradient():
    (value,), (gradient,), _ = differentiate(NegLogSigmoid(), ([-80.0, 0.0, 80.0],), (np.ones(3),))
    np.testing.assert_allclose(value, [80.0, np.log(2), 0.0], rtol=F32_RTOL, atol=F32_ATOL)
    np.testing.assert_allclose(gradient, [-1.0, -0.5, 0.0], rtol=0, atol=GRADIENT_ATOL)


def test_an_answer_that_is_certain_has_finite_odds():
    cell = OrpoLoss(OrpoConfig(name="orpo"))
    with eager():
        (total, _, reward), (gradient,), _ = differentiate(
            cell, ([0.0, -1.0], [0.0, 0.0], [4.0, 4.0], [0.0, 0.0], 0.0), (1.0, 0.0, np.zeros(2))
        )
    assert np.isfinite(total) and np.isfinite(reward).all() and np.isfinite(gradient).all()


def test_robust_is_unbiased_under_wrong_labels():
    # a share e of pairs the wrong way round: the mean loss is that of DPO with right labels
    cell, e = RobustLoss(RobustConfig(name="robust", beta=0.3, label_smoothing=0.2)), 0.2
    logp, ref_logp = np.array([-3.0, -5.0]), np.array([-4.0, -2.0])
    with eager():
        right = run(cell, logp, ref_logp, [1, 1], [0, 0], 0.0)[0]
        wrong = run(cell, logp[::-1], ref_logp[::-1], [1, 1], [0, 0], 0.0)[0]
        plain = run(sigmoid(beta=0.3), logp, ref_logp, [1, 1], [0, 0], 0.0)[0]
    np.testing.assert_allclose((1 - e) * right + e * wrong, plain, rtol=F32_RTOL, atol=F32_ATOL)
