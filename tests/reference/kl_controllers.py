"""Adaptive KL weight (Ziegler et al. 2019, "Fine-Tuning Language Models from Human Preferences", section 2.2)."""

from __future__ import annotations


def adaptive(beta, observed_kl, *, target, horizon, num_answers):
    """``e = clip(KL / target - 1, -0.2, 0.2)``, ``beta (1 + e num_answers / horizon)``.

    The paper's ``K_beta = 0.1`` is for one batch; ``num_answers / horizon`` makes the speed independent of the batch.
    """
    error = min(max(observed_kl / target - 1.0, -0.2), 0.2)
    return beta * (1.0 + error * num_answers / horizon)
