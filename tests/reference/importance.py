"""Truncated importance sampling (Ionides 2008), the effective sample size (Kong 1992) and the soft punishment of
overlong answers (Yu et al. 2025, equation 13), number by number."""

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


def overlong_penalty(length, longest, buffer):
    """The three cases of the equation."""
    if length <= longest - buffer:
        return 0.0
    if length <= longest:
        return ((longest - buffer) - length) / buffer
    return -1.0
