"""The loss of a batch from the losses of its tokens, row by row (Liu et al. 2025, section 3; Yu et al. 2025, 3.3)."""

from __future__ import annotations

import numpy as np


def _rows(loss_BR, mask_BR):
    """The losses of the tokens that count, of each row that has some."""
    rows = [np.asarray(loss, np.float64)[np.asarray(mask) != 0] for loss, mask in zip(loss_BR, mask_BR, strict=True)]
    return [row for row in rows if row.size]


def token_mean(loss_BR, mask_BR):
    """Mean over all tokens."""
    rows = _rows(loss_BR, mask_BR)
    return sum(row.sum() for row in rows) / sum(row.size for row in rows)


def seq_mean_token_mean(loss_BR, mask_BR):
    """Mean over rows of the mean over a row's tokens."""
    rows = _rows(loss_BR, mask_BR)
    return sum(row.mean() for row in rows) / len(rows)


def seq_mean_token_sum(loss_BR, mask_BR):
    """Mean over rows of the sum over a row's tokens."""
    rows = _rows(loss_BR, mask_BR)
    return sum(row.sum() for row in rows) / len(rows)


def seq_mean_token_sum_norm(loss_BR, mask_BR):
    """The same divided by the longest answer there can be, R."""
    return seq_mean_token_sum(loss_BR, mask_BR) / np.shape(mask_BR)[1]
