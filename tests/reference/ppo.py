"""The PPO losses (Schulman et al. 2017, equation 7) as they are used for language models.

Separate clip bounds: Yu et al. 2025 (DAPO, equation 10). Dual clip for negative advantages: Ye et al. 2020, equation 5.
Value loss with clipping: the reference implementation of Schulman et al. (Engstrom et al. 2020, section 3), halved.
"""

from __future__ import annotations

import numpy as np

from tests.reference.kl import k2


def _f64(*arrays):
    return [np.asarray(x, np.float64) for x in arrays]


def policy_terms(logp, old_logp, advantage, *, clip_low, clip_high, dual_clip=None):
    """The clipped surrogate of each token, to be minimised.

    ``max(-A rho, -A clip(rho, 1 - clip_low, 1 + clip_high))`` with ``rho = exp(logp - old_logp)``;
    where A < 0 and dual clip c is on: ``min(that, -c A)``.

    Returns:
        (terms, clipped): float64 and bool arrays of the inputs' shape; clipped is where the bound, not rho, decides
        (so the gradient is zero).
    """
    logp, old_logp, advantage = _f64(logp, old_logp, advantage)
    ratio = np.exp(logp - old_logp)
    free = -advantage * ratio
    bounded = -advantage * np.clip(ratio, 1.0 - clip_low, 1.0 + clip_high)
    terms = np.maximum(free, bounded)
    clipped = bounded > free
    if dual_clip is not None:
        cap = np.where(advantage < 0, -dual_clip * advantage, np.inf)
        clipped = clipped | (terms > cap)
        terms = np.minimum(terms, cap)
    return terms, clipped


def policy_loss(logp, old_logp, advantage, mask, **clips):
    """Masked sum of ``policy_terms`` and the number of real tokens: (sum, count)."""
    terms, _ = policy_terms(logp, old_logp, advantage, **clips)
    mask = np.asarray(mask, np.float64)
    return float((terms * mask).sum()), float(mask.sum())


def sequence_policy_loss(logp, old_logp, advantage, mask, *, clip_low, clip_high):
    """The same with one ratio an answer (Zheng et al. 2025, GSPO, equations 5 and 7): (sum over real tokens, count).

    ``s = exp(mean of logp - old_logp over the answer's real tokens)``; inputs are (B, R).
    """
    logp, old_logp, advantage, mask = _f64(logp, old_logp, advantage, mask)
    total = 0.0
    for row in range(len(logp)):
        real = mask[row] > 0
        if real.any():
            ratio = np.exp((logp[row] - old_logp[row])[real].mean())
            held = np.clip(ratio, 1.0 - clip_low, 1.0 + clip_high)
            total += np.maximum(-advantage[row][real] * ratio, -advantage[row][real] * held).sum()
    return float(total), float(mask.sum())


def policy_gradient(logp, old_logp, advantage, mask, **clips):
    """Gradient of ``policy_loss``'s sum in ``logp``: ``-A rho`` where not clipped, else 0 (times the mask)."""
    _, clipped = policy_terms(logp, old_logp, advantage, **clips)
    logp, old_logp, advantage, mask = _f64(logp, old_logp, advantage, mask)
    return np.where(clipped, 0.0, -advantage * np.exp(logp - old_logp)) * mask


def value_loss(value, old_value, returns, mask, value_clip=None):
    """``0.5 sum mask max((V - R)^2, (clip(V, old - eps, old + eps) - R)^2)`` and count; unclipped: the first term."""
    value, old_value, returns, mask = _f64(value, old_value, returns, mask)
    error = (value - returns) ** 2
    if value_clip is not None:
        near = np.clip(value, old_value - value_clip, old_value + value_clip)
        error = np.maximum(error, (near - returns) ** 2)
    return float(0.5 * (error * mask).sum()), float(mask.sum())


def value_gradient(value, old_value, returns, mask, value_clip=None):
    """Gradient of ``value_loss``'s sum in ``value``: ``V - R``, or 0 where the clipped branch is the larger one."""
    value, old_value, returns, mask = _f64(value, old_value, returns, mask)
    gradient = value - returns
    if value_clip is not None:
        near = np.clip(value, old_value - value_clip, old_value + value_clip)
        gradient = np.where((near - returns) ** 2 > (value - returns) ** 2, 0.0, gradient)
    return gradient * mask


def entropy_bonus(entropy, mask):
    """Masked sum of entropies and the count; a loss subtracts ``entropy_coef`` times it."""
    entropy, mask = _f64(entropy, mask)
    return float((entropy * mask).sum()), float(mask.sum())


def in_loss_kl(logp, ref_logp, mask):
    """Masked sum of k2 and the count: as a loss its gradient is that of KL(pi || ref)."""
    return float((k2(logp, ref_logp) * np.asarray(mask, np.float64)).sum()), float(np.sum(mask))


def clip_fraction(logp, old_logp, mask, *, clip_low, clip_high):
    """Share of real tokens whose ratio is outside ``[1 - clip_low, 1 + clip_high]``."""
    logp, old_logp, mask = _f64(logp, old_logp, mask)
    ratio = np.exp(logp - old_logp)
    outside = (ratio < 1.0 - clip_low) | (ratio > 1.0 + clip_high)
    return float((outside * mask).sum() / max(mask.sum(), 1.0))


def approx_kl(logp, old_logp, mask):
    """Mean k3 of the real tokens: KL(old || new) from tokens sampled by old, ``rho - 1 - log rho``."""
    logp, old_logp, mask = _f64(logp, old_logp, mask)
    log_ratio = logp - old_logp
    return float(((np.exp(log_ratio) - 1.0 - log_ratio) * mask).sum() / max(mask.sum(), 1.0))
