"""Advantages and returns of tokens."""

from __future__ import annotations

import numpy as np


def gae(
    reward_BR: np.ndarray,
    value_BR: np.ndarray,
    response_mask_BR: np.ndarray,
    bootstrap_value_B: np.ndarray,
    *,
    gamma: float,
    lam: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Generalised advantage estimation (Schulman et al. 2016, equation 16) in its backward form.

    ``delta_t = r_t + gamma V_{t+1} - V_t`` and ``A_t = delta_t + gamma lam A_{t+1}``, where t+1 is the next real
    token. After the last real token V is ``bootstrap_value_B`` and A is 0. Pads are skipped: they neither end an
    answer nor carry anything. Returns are taken before any whitening of the advantages.

    Args:
        reward_BR: (B, R) float, reward of each token.
        value_BR: (B, R) float, V of the state before token t (what the value model says at the token before it).
        response_mask_BR: (B, R) 1 for the answer's tokens.
        bootstrap_value_B: (B,) float, 0 for an answer that ended; V of the state after its last token for one cut off.
        gamma: discount in (0, 1].
        lam: lambda in [0, 1]; 0 is the one-step error, 1 the Monte Carlo return minus V.

    Returns:
        (advantage_BR, return_BR): (B, R) float32, 0 where the mask is 0; ``return = advantage + value``.
    """
    real_BR = np.asarray(response_mask_BR) != 0
    reward = np.where(real_BR, reward_BR, 0.0).astype(np.float64)
    value = np.where(real_BR, value_BR, 0.0).astype(np.float64)
    advantage = np.zeros(real_BR.shape, np.float64)
    next_value = np.asarray(bootstrap_value_B, np.float64)
    next_advantage = np.zeros(real_BR.shape[0], np.float64)
    for t in reversed(range(real_BR.shape[1])):
        delta = reward[:, t] + gamma * next_value - value[:, t]
        real = real_BR[:, t]
        next_advantage = np.where(real, delta + gamma * lam * next_advantage, next_advantage)
        next_value = np.where(real, value[:, t], next_value)
        advantage[:, t] = np.where(real, next_advantage, 0.0)
    return advantage.astype(np.float32), (advantage + value).astype(np.float32)
