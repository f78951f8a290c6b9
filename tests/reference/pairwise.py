"""Pairwise reward loss of Bradley-Terry as in Ouyang et al. 2022 (InstructGPT, equation 1).

Label smoothing: Szegedy et al. 2016, section 7: the cross-entropy of labels (1 - e, e). Margin: Touvron et al. 2023
(Llama 2, equation 2). Centering: Eisenstein et al. 2023 ("Helping or Herding?").
"""

from __future__ import annotations

import numpy as np


def _log_sigmoid(x):
    return -np.logaddexp(0.0, -x)


def _sigmoid(x):
    return np.exp(_log_sigmoid(x))


def pairwise(chosen_B, rejected_B, margin_B, centering=0.0, smoothing=0.0):
    """``sum_b -(1 - e) log sigmoid(d_b) - e log sigmoid(-d_b) + centering * (c_b + r_b)^2`` and the number of pairs.

    ``d_b = c_b - r_b - m_b``.

    Args:
        chosen_B: (B,) scores of the better answers. rejected_B: (B,) of the worse ones.
        margin_B: (B,) required lead.
        centering: weight that keeps the scores of a pair near zero.
        smoothing: e.

    Returns:
        (sum, count), both float.
    """
    chosen, rejected, margin = (np.asarray(x, np.float64) for x in (chosen_B, rejected_B, margin_B))
    lead = chosen - rejected - margin
    loss = -(1 - smoothing) * _log_sigmoid(lead) - smoothing * _log_sigmoid(-lead)
    loss = loss + centering * (chosen + rejected) ** 2
    return float(loss.sum()), float(chosen.size)


def pairwise_gradient(chosen_B, rejected_B, margin_B, centering=0.0, smoothing=0.0):
    """Gradient of the sum in c and r, two (B,): ``-+ ((1 - e) sigmoid(-d) - e sigmoid(d)) + 2 centering (c + r)``."""
    chosen, rejected, margin = (np.asarray(x, np.float64) for x in (chosen_B, rejected_B, margin_B))
    lead = chosen - rejected - margin
    wrong = (1 - smoothing) * _sigmoid(-lead) - smoothing * _sigmoid(lead)
    centre = 2.0 * centering * (chosen + rejected)
    return -wrong + centre, wrong + centre
