"""Generalised advantage estimation (Schulman et al. 2016, equation 16), as a sum, not a recursion."""

from __future__ import annotations

import numpy as np


def gae(reward_BR, value_BR, response_mask_BR, bootstrap_value_B, *, gamma, lam):
    """``A_t = sum_{l >= 0} (gamma lam)^l delta_{t+l}`` over real tokens; ``delta_t = r_t + gamma V_{t+1} - V_t``.

    V_{t+1} after the last real token is ``bootstrap_value_B``: 0 for an answer that ended, V of the state reached by
    one that was cut off.

    Args:
        reward_BR: (B, R). value_BR: (B, R) V of the state before token t.
        response_mask_BR: (B, R) 1 for real tokens; they may start and stop anywhere but are one run.
        bootstrap_value_B: (B,).
        gamma: discount. lam: lambda.

    Returns:
        (advantage_BR, return_BR) float64, both 0 on pads; return = advantage + value.
    """
    reward, value = np.asarray(reward_BR, np.float64), np.asarray(value_BR, np.float64)
    advantage, returns = np.zeros_like(reward), np.zeros_like(reward)
    for row in range(reward.shape[0]):
        real = [int(t) for t in np.flatnonzero(np.asarray(response_mask_BR)[row])]
        state_values = [value[row, t] for t in real] + [float(np.asarray(bootstrap_value_B)[row])]
        deltas = [reward[row, t] + gamma * state_values[i + 1] - state_values[i] for i, t in enumerate(real)]
        for i, t in enumerate(real):
            advantage[row, t] = sum((gamma * lam) ** (j - i) * deltas[j] for j in range(i, len(real)))
            returns[row, t] = advantage[row, t] + state_values[i]
    return advantage, returns
