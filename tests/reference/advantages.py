"""Advantages from groups of answers, written answer by answer.

GRPO: Shao et al. 2024 (DeepSeekMath), section 4.1.2. Dr. GRPO: Liu et al. 2025. RLOO: Kool et al. 2019, Ahmadian et al.
2024. REINFORCE++: Hu et al. 2025. The reward of a token is ``-cost``, plus the score at the answer's last one.
"""

from __future__ import annotations

import math

import numpy as np


def _groups(counts_B, size):
    for start in range(0, len(counts_B), size):
        yield [row for row in range(start, start + size) if counts_B[row]]


def _returns(score_B, cost_BR, mask_BR):
    return [
        float(score) - sum(float(c) for c, real in zip(cost, mask, strict=True) if real)
        for score, cost, mask in zip(score_B, cost_BR, mask_BR, strict=True)
    ]


def grpo(score_B, counts_B, size, *, ddof, epsilon):
    """``(r - mean) / (std + epsilon)``; a group of equal scores gives 0."""
    out = np.zeros(len(score_B))
    for rows in _groups(counts_B, size):
        scores = [float(score_B[row]) for row in rows]
        if len(set(scores)) < 2:
            continue
        mean = math.fsum(scores) / len(scores)
        std = math.sqrt(math.fsum((s - mean) ** 2 for s in scores) / (len(scores) - ddof))
        for row, score in zip(rows, scores, strict=True):
            out[row] = (score - mean) / (std + epsilon)
    return out


def dr_grpo(score_B, cost_BR, mask_BR, counts_B, size):
    """``R - mean of all R`` of the group."""
    returns, out = _returns(score_B, cost_BR, mask_BR), np.zeros(len(score_B))
    for rows in _groups(counts_B, size):
        for row in rows:
            out[row] = returns[row] - math.fsum(returns[other] for other in rows) / len(rows)
    return out


def rloo(score_B, cost_BR, mask_BR, counts_B, size):
    """``R - mean of the other R`` of the group; 0 for an answer without others."""
    returns, out = _returns(score_B, cost_BR, mask_BR), np.zeros(len(score_B))
    for rows in _groups(counts_B, size):
        for row in rows:
            others = [returns[other] for other in rows if other != row]
            out[row] = returns[row] - math.fsum(others) / len(others) if others else 0.0
    return out


def reinforce_pp(score_B, cost_BR, mask_BR, counts_B, size, *, baseline):
    """``sum of the rewards from token t on``, then (A - mean) / sqrt(var + 1e-8) over all real tokens."""
    scores = [float(s) for s in score_B]
    if baseline == "group":
        for rows in _groups(counts_B, size):
            mean = math.fsum(float(score_B[row]) for row in rows) / max(len(rows), 1)
            for row in rows:
                scores[row] = float(score_B[row]) - mean
    out = np.zeros(np.shape(mask_BR))
    places = [(b, t) for b, t in zip(*np.nonzero(mask_BR), strict=True)]
    for b, t in places:
        out[b, t] = scores[b] - sum(float(cost_BR[b, u]) for u in range(t, out.shape[1]) if mask_BR[b, u])
    values = [out[place] for place in places]
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values) + 1e-8)
    for place in places:
        out[place] = (out[place] - mean) / deviation
    return out
