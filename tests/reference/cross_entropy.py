"""Masked cross-entropy with the z-loss of PaLM (Chowdhery et al. 2022, section 5), as (sum, count)."""

from __future__ import annotations

import numpy as np


def _log_partition(logits):
    top = logits.max(axis=-1)
    return top + np.log(np.exp(logits - top[:, None]).sum(axis=-1))


def cross_entropy(logits_NV, labels_N, mask_N, z_loss=0.0):
    """``sum_i mask_i * (log Z_i - z_i[label_i] + z_loss * log^2 Z_i)`` and ``sum_i mask_i``.

    Args:
        logits_NV: (N, V).
        labels_N: (N,) ids (any id where the mask is 0).
        mask_N: (N,) 1 where the label is trained.
        z_loss: weight of the squared log-partition.

    Returns:
        (sum, count), both float.
    """
    logits, mask = np.asarray(logits_NV, np.float64), np.asarray(mask_N, np.float64)
    log_z = _log_partition(logits)
    label_logits = logits[np.arange(mask.size), np.asarray(labels_N)]
    return float((mask * (log_z - label_logits + z_loss * log_z**2)).sum()), float(mask.sum())


def cross_entropy_gradient(logits_NV, labels_N, mask_N, z_loss=0.0):
    """Gradient of the sum in the logits: ``mask * (softmax * (1 + 2 * z_loss * log Z) - onehot)``, (N, V) float64."""
    logits, mask = np.asarray(logits_NV, np.float64), np.asarray(mask_N, np.float64)
    log_z = _log_partition(logits)[:, None]
    gradient = np.exp(logits - log_z) * (1.0 + 2.0 * z_loss * log_z)
    gradient[np.arange(mask.size), np.asarray(labels_N)] -= 1.0
    return gradient * mask[:, None]
