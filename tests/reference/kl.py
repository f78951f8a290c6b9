"""Estimators of KL from samples (Schulman 2020, "Approximating KL Divergence") and what their gradients are.

With tokens x ~ pi: k1 = log pi(x) - log ref(x), k2 = k1^2 / 2, k3 = exp(-k1) - 1 + k1.
Differentiating an estimator as a loss (samples held fixed) gives, in expectation over pi:
k1 -> 0 (the score function has mean zero); k2 -> grad KL(pi || ref); k3 -> grad KL(ref || pi).
"""

from __future__ import annotations

import numpy as np

from tests.reference.logprob import log_softmax


def k1(logp, ref_logp):
    """``logp - ref_logp``: unbiased, signed."""
    return np.asarray(logp, np.float64) - np.asarray(ref_logp, np.float64)


def k2(logp, ref_logp):
    """``(logp - ref_logp)^2 / 2``: biased, never negative."""
    return 0.5 * k1(logp, ref_logp) ** 2


def k3(logp, ref_logp):
    """``exp(ref_logp - logp) - 1 - (ref_logp - logp)``: unbiased, never negative."""
    log_ratio = -k1(logp, ref_logp)
    return np.exp(log_ratio) - 1.0 - log_ratio


def exact_kl(logits_V, ref_logits_V):
    """``sum_x pi(x) (log pi(x) - log ref(x))`` of two categoricals."""
    logp, ref_logp = log_softmax(logits_V), log_softmax(ref_logits_V)
    return float((np.exp(logp) * (logp - ref_logp)).sum())


def reverse_kl_gradient(logits_V, ref_logits_V):
    """Gradient of KL(pi || ref) in pi's logits: ``pi(x) (log pi(x)/ref(x) - KL)``, (V,)."""
    logp, ref_logp = log_softmax(logits_V), log_softmax(ref_logits_V)
    return np.exp(logp) * (logp - ref_logp - exact_kl(logits_V, ref_logits_V))


def forward_kl_gradient(logits_V, ref_logits_V):
    """Gradient of KL(ref || pi) in pi's logits: ``pi(x) - ref(x)``, (V,)."""
    return np.exp(log_softmax(logits_V)) - np.exp(log_softmax(ref_logits_V))


def expected_estimator_gradient(logits_V, ref_logits_V, derivative):
    """``E_{x ~ pi}[ d k / d logp(x) * grad logp(x) ]``: the gradient seen by a loss that averages k over samples.

    Args:
        logits_V: (V,) of pi. ref_logits_V: (V,) of the reference.
        derivative: function of ``logp - ref_logp`` giving dk / dlogp.

    Returns:
        (V,) float64.
    """
    logp, ref_logp = log_softmax(logits_V), log_softmax(ref_logits_V)
    probs, total = np.exp(logp), np.zeros(logp.size)
    for token in range(logp.size):
        onehot = np.eye(logp.size)[token]
        total += probs[token] * derivative(logp[token] - ref_logp[token]) * (onehot - probs)
    return total
