"""Estimators of KL(policy || reference) from the policy's own tokens (Schulman 2020, "Approximating KL Divergence").

With ``d = logp - ref_logp`` of a sampled token: k1 = d is unbiased and signed, k3 = exp(-d) - 1 + d is unbiased and
never negative. k1 belongs in the reward (it gives the policy gradient of KL(policy || reference)); k3 is for reports
only: in the reward it is biased, and as a loss its gradient is that of KL(reference || policy). The term inside the
loss is k2 = d^2 / 2.
"""

from __future__ import annotations

import numpy as np

from llmstack.rl.whiten import masked_mean

_MAX_LOG_RATIO = 20.0
"""exp(20) = 5e8 is already absurd for a ratio of probabilities; beyond it one token would drown every mean."""


def k1(logp_BR: np.ndarray, ref_logp_BR: np.ndarray, response_mask_BR: np.ndarray) -> np.ndarray:
    """Signed estimate of each token: ``logp - ref_logp``.

    Args:
        logp_BR: (B, R) float, log-probability of the sampled token under the policy.
        ref_logp_BR: (B, R) float, the same under the reference at the same temperature.
        response_mask_BR: (B, R) 1 for the answer's tokens.

    Returns:
        (B, R) float32, 0 where the mask is 0.
    """
    return _log_ratio(logp_BR, ref_logp_BR, response_mask_BR).astype(np.float32)


def k3(logp_BR: np.ndarray, ref_logp_BR: np.ndarray, response_mask_BR: np.ndarray) -> np.ndarray:
    """Non-negative estimate of each token: ``exp(-d) - 1 + d`` with ``d = logp - ref_logp`` clamped to +-20.

    Args:
        logp_BR: (B, R) float, log-probability of the sampled token under the policy.
        ref_logp_BR: (B, R) float, the same under the reference at the same temperature.
        response_mask_BR: (B, R) 1 for the answer's tokens.

    Returns:
        (B, R) float32, 0 where the mask is 0.
    """
    difference = np.clip(_log_ratio(logp_BR, ref_logp_BR, response_mask_BR), -_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    return (np.expm1(-difference) + difference).astype(np.float32)


def sequence_kl(logp_BR: np.ndarray, ref_logp_BR: np.ndarray, response_mask_BR: np.ndarray) -> np.ndarray:
    """KL estimate of each whole answer in nats: the sum of k1 over its tokens (chain rule of KL).

    Args:
        logp_BR: (B, R) float, log-probability of the sampled token under the policy.
        ref_logp_BR: (B, R) float, the same under the reference at the same temperature.
        response_mask_BR: (B, R) 1 for the answer's tokens.

    Returns:
        (B,) float32. A single answer's estimate may be negative; the mean over many is not.
    """
    return _log_ratio(logp_BR, ref_logp_BR, response_mask_BR).sum(axis=-1).astype(np.float32)


def token_kl(logp_BR: np.ndarray, ref_logp_BR: np.ndarray, response_mask_BR: np.ndarray) -> float:
    """Mean k1 of a token in nats over all real tokens of the batch; 0 when there are none.

    Args:
        logp_BR: (B, R) float, log-probability of the sampled token under the policy.
        ref_logp_BR: (B, R) float, the same under the reference at the same temperature.
        response_mask_BR: (B, R) 1 for the answer's tokens.

    Returns:
        ``sum(mask (logp - ref_logp)) / sum(mask)``.
    """
    return masked_mean(_log_ratio(logp_BR, ref_logp_BR, response_mask_BR), response_mask_BR)


def _log_ratio(logp_BR: np.ndarray, ref_logp_BR: np.ndarray, response_mask_BR: np.ndarray) -> np.ndarray:
    real = np.asarray(response_mask_BR) != 0
    out = np.zeros(real.shape, np.float64)
    out[real] = np.asarray(logp_BR)[real].astype(np.float64) - np.asarray(ref_logp_BR)[real]
    return out
