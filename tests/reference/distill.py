"""Divergences of a student from its teacher (Hinton et al. 2015; Gu et al. 2024; Agarwal et al. 2024, equation 1).

p = softmax(teacher / T), q = softmax(student / T). Written with probabilities and sums over tokens, position by
position, as the papers have them.
"""

from __future__ import annotations

import numpy as np


def softmax(logits_V, temperature=1.0):
    """Probabilities of one position."""
    scaled = np.asarray(logits_V, np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    return weights / weights.sum()


def kl(p, q):
    """``sum p log(p / q)`` over the outcomes that p allows."""
    return float(sum(a * (np.log(a) - np.log(b)) for a, b in zip(p, q, strict=True) if a > 0))


def forward_kl(p, q):
    """KL(p || q)."""
    return kl(p, q)


def reverse_kl(p, q):
    """KL(q || p)."""
    return kl(q, p)


def jensen_shannon(p, q, beta=0.5):
    """``beta KL(p || m) + (1 - beta) KL(q || m)``, ``m = beta p + (1 - beta) q``."""
    mixture = beta * p + (1 - beta) * q
    return beta * kl(p, mixture) + (1 - beta) * kl(q, mixture)


def buckets(p, q, top_k):
    """The k likeliest outcomes of p, and all others as one; the empty remainder of k = V is left out."""
    top = np.argsort(-p, kind="stable")[:top_k]
    rest = np.setdiff1d(np.arange(p.size), top)
    if not rest.size:
        return p[top], q[top]
    return np.append(p[top], p[rest].sum()), np.append(q[top], q[rest].sum())


def distillation(teacher_NV, student_NV, mask_N, measure, temperature=1.0, top_k=None):
    """``sum_i mask_i T^2 measure(p_i, q_i)`` and the sum of the mask.

    Args:
        teacher_NV: (N, V) logits. student_NV: (N, V) logits. mask_N: (N,).
        measure: function of p and q. temperature: T. top_k: outcomes told apart; None for all.
    """
    total = 0.0
    for teacher, student, mask in zip(teacher_NV, student_NV, mask_N, strict=True):
        p, q = softmax(teacher, temperature), softmax(student, temperature)
        if top_k is not None:
            p, q = buckets(p, q, top_k)
        total += mask * temperature**2 * measure(p, q)
    return total, float(np.sum(mask_N))


def forward_kl_gradient(teacher_NV, student_NV, mask_N, temperature=1.0):
    """Gradient of the forward KL's sum in the student's logits: ``mask T (q - p)``, (N, V)."""
    p = np.array([softmax(row, temperature) for row in teacher_NV])
    q = np.array([softmax(row, temperature) for row in student_NV])
    return np.asarray(mask_N, np.float64)[:, None] * temperature * (q - p)
