"""Losses of preferences from the papers, in float64: DPO and its relatives.

``c`` and ``r`` are log-probabilities of chosen and rejected answers summed over tokens, ``c0`` and ``r0`` the
reference's, ``nc`` and ``nr`` tokens. Each function gives one number a pair, KTO one an answer.
"""

from __future__ import annotations

import numpy as np


def _sigmoid(x):
    x = np.asarray(x, np.float64)
    return np.where(x >= 0, 1.0 / (1.0 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1.0 + np.exp(-np.abs(x))))


def _log_sigmoid(x):
    return -np.logaddexp(0.0, -np.asarray(x, np.float64))


def _lead(c, r, c0, r0):
    c, r, c0, r0 = (np.asarray(x, np.float64) for x in (c, r, c0, r0))
    return (c - c0) - (r - r0)


def sigmoid(c, r, c0, r0, *, beta, label_smoothing=0.0):
    """Rafailov et al. 2023, equation 7; with label smoothing Mitchell 2023 (cDPO)."""
    h = beta * _lead(c, r, c0, r0)
    return -(1 - label_smoothing) * _log_sigmoid(h) - label_smoothing * _log_sigmoid(-h)


def sigmoid_gradient(c, r, c0, r0, *, beta):
    """The gradient below equation 7, without smoothing: -+ beta sigmoid(-h) in c and in r."""
    weight = beta * _sigmoid(-beta * _lead(c, r, c0, r0))
    return -weight, weight


def robust(c, r, c0, r0, *, beta, label_smoothing):
    """Chowdhury et al. 2024, section 3.1: (1 - e) times the loss less e times that of the swapped pair, rescaled."""
    e = label_smoothing
    right, swapped = sigmoid(c, r, c0, r0, beta=beta), sigmoid(r, c, r0, c0, beta=beta)
    return ((1 - e) * right - e * swapped) / (1 - 2 * e)


def hinge(c, r, c0, r0, *, beta):
    """Zhao et al. 2023 with Liu et al. 2023's normalised likelihoods."""
    return np.maximum(0.0, 1.0 - beta * _lead(c, r, c0, r0))


def ipo(c, r, c0, r0, *, beta):
    """Azar et al. 2023, equation 17."""
    return (_lead(c, r, c0, r0) - 1.0 / (2.0 * beta)) ** 2


def orpo(c, r, nc, nr, *, weight):
    """Hong et al. 2024, equations 6 and 7, odds from equation 4."""
    chosen, rejected = np.exp(np.divide(c, nc)), np.exp(np.divide(r, nr))
    ratio = (chosen / (1 - chosen)) / (rejected / (1 - rejected))
    return -np.divide(c, nc) - weight * np.log(_sigmoid(np.log(ratio)))


def simpo(c, r, nc, nr, *, beta, gamma):
    """Meng et al. 2024, equation 6."""
    return -_log_sigmoid(beta * np.divide(c, nc) - beta * np.divide(r, nr) - gamma)


def kto(logp, ref_logp, good, z0, *, beta, good_weight=1.0, bad_weight=1.0):
    """Ethayarajh et al. 2024, equation 8: lambda_y - v(x, y), an answer at a time."""
    found = []
    for policy, reference, is_good in zip(logp, ref_logp, good, strict=True):
        r = policy - reference
        if is_good:
            found.append(good_weight - good_weight * _sigmoid(beta * (r - z0)))
        else:
            found.append(bad_weight - bad_weight * _sigmoid(beta * (z0 - r)))
    return np.asarray(found, np.float64)


def baseline(log_ratio):
    """Its z0 of mismatched answers."""
    return max(0.0, sum(float(x) for x in log_ratio) / len(log_ratio))
