"""Per-token rewards of RLHF (Ziegler et al. 2019, equation 2; Ouyang et al. 2022, equation 2)."""

from __future__ import annotations

import numpy as np


def token_rewards(logp_BR, ref_logp_BR, response_mask_BR, score_B, beta):
    """``-beta (log pi - log ref)`` on real tokens, plus the score on the last of a row; 0 on pads: (B, R) float64."""
    mask = np.asarray(response_mask_BR)
    out = np.zeros(mask.shape)
    for row in range(mask.shape[0]):
        real = np.flatnonzero(mask[row])
        for t in real:
            out[row, t] = -beta * (float(logp_BR[row][t]) - float(ref_logp_BR[row][t]))
        if real.size:
            out[row, real[-1]] += float(score_B[row])
    return out
