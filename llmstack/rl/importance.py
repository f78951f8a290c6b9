"""Correction for answers that were sampled with other numbers than the training graph computes."""

from __future__ import annotations

import numpy as np

_MAX_LOG_RATIO = 20.0
"""exp(20) = 5e8 is already absurd for a ratio of probabilities."""


def importance_weights(
    logp_BR: np.ndarray, sampled_logp_BR: np.ndarray, mask_BR: np.ndarray, *, cap: float | None
) -> np.ndarray:
    """Truncated importance sampling (Ionides 2008; against a sampler's mismatch: Yao et al. 2025).

    ``min(exp(logp - sampled_logp), cap)`` of each token. The policy loss is homogeneous in the advantage,
    ``max(-w A rho, -w A clip(rho)) = w max(-A rho, -A clip(rho))`` for w >= 0, the dual clip too: multiplying the
    advantages by the weights weighs the policy's term alone and leaves entropy and KL as they are.

    Args:
        logp_BR: (B, R) float, log-probability of the sampled token in the training graph, before any update.
        sampled_logp_BR: (B, R) float, what the sampler saw.
        mask_BR: (B, R) 1 on real tokens.
        cap: largest weight; None does not truncate.

    Returns:
        (B, R) float32, 0 where the mask is 0.
    """
    real = np.asarray(mask_BR) != 0
    weight_BR = np.zeros(real.shape, np.float64)
    difference = np.asarray(logp_BR)[real].astype(np.float64) - np.asarray(sampled_logp_BR)[real]
    weight = np.exp(np.clip(difference, -_MAX_LOG_RATIO, _MAX_LOG_RATIO))
    weight_BR[real] = weight if cap is None else np.minimum(weight, cap)
    return weight_BR.astype(np.float32)


def effective_sample_ratio(weight_BR: np.ndarray, mask_BR: np.ndarray) -> float:
    """Share of the tokens that a weighted sample is worth: ``(sum w)^2 / (n sum w^2)`` (Kong 1992).

    Args:
        weight_BR: (B, R) float, importance weights.
        mask_BR: (B, R) 1 on real tokens.

    Returns:
        From 1/n to 1 (all weights equal); 1 when there are no tokens or all weights are 0.
    """
    weight = np.asarray(weight_BR)[np.asarray(mask_BR) != 0].astype(np.float64)
    squares = float((weight**2).sum())
    return float(weight.sum() ** 2 / (weight.size * squares)) if squares > 0 else 1.0
