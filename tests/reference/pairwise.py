"""Pairwise reward loss of Bradley-Terry as in Ouyang et al. 2022 (InstructGPT, equation 1).

Margin: Touvron et al. 2023 (Llama 2, equation 2). Centering: Eisenstein et al. 2023 ("Helping or Herding?").
"""

from __future__ import annotations

import numpy as np


def _log_sigmoid(x):
    return -np.logaddexp(0.0, -x)


def _sigmoid(x):
    return np.exp(_log_sigmoid(x))


def pairwise(chosen_B, rejected_B, margin_B, centering=0.0):
    """``sum_b -log sigmoid(c_b - r_b - m_b) + centering * (c_b + r_b)^2`` and the number of pairs.

    Args:
        chosen_B: (B,) scores of the better answers. rejected_B: (B,) of the worse ones.
        margin_B: (B,) required lead.
        centering: weight that keeps the scores of a pair near zero.

    Returns:
        (sum, count), both float.
    """
    chosen, rejected, margin = (np.asarray(x, np.float64) for x in (chosen_B, rejected_B, margin_B))
    loss = -_log_sigmoid(chosen - rejected - margin) + centering * (chosen + rejected) ** 2
    return float(loss.sum()), float(chosen.size)


def pairwise_gradient(chosen_B, rejected_B, margin_B, centering=0.0):
    """Gradient of the sum in c and in r: ``-+ sigmoid(-(c - r - m)) + 2 centering (c + r)``, two (B,) arrays."""
    chosen, rejected, margin = (np.asarray(x, np.float64) for x in (chosen_B, rejected_B, margin_B))
    wrong = _sigmoid(-(chosen - rejected - margin))
    centre = 2.0 * centering * (chosen + rejected)
    return -wrong + centre, wrong + centre
