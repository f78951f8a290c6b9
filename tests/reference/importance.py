"""Truncated importance sampling (Ionides 2008) and the effective sample size (Kong 1992), number by number."""

from __future__ import annotations

import math

import numpy as np


def importance_weights(logp, sampled_logp, mask, cap):
    """``min(p / q, cap)`` on real tokens, else 0."""
    out = np.zeros(np.shape(mask))
    for place in zip(*np.nonzero(mask), strict=True):
        ratio = math.exp(float(logp[place])) / math.exp(float(sampled_logp[place]))
        out[place] = ratio if cap is None else min(ratio, cap)
    return out


def effective_sample_ratio(weights):
    """``1 / (n sum of squared shares)``."""
    total = math.fsum(weights)
    return 1.0 / (len(weights) * math.fsum((w / total) ** 2 for w in weights))
