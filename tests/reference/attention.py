"""Scaled dot-product attention (Vaswani et al. 2017, equation 1); grouped queries (Ainslie et al. 2023, 2.2)."""

from __future__ import annotations

import numpy as np


def allowed(segments_BT):
    """Which key a query may see: same segment, not later.

    Args:
        segments_BT: (B, T) document number of each token, 0 for pads (pads see earlier pads and themselves).

    Returns:
        (B, T, T) bool, [row, query, key]; every query sees at least itself.
    """
    segments = np.asarray(segments_BT)
    num_tokens = segments.shape[1]
    same = segments[:, :, None] == segments[:, None, :]
    not_later = np.arange(num_tokens)[None, :] <= np.arange(num_tokens)[:, None]
    return same & not_later[None]


def attention(q_BTHE, k_BTKE, v_BTKE, segments_BT):
    """``softmax(q k^T / sqrt(E)) v`` over the allowed keys; query head h reads key/value head ``h // (H / K)``.

    Args:
        q_BTHE: (B, T, H, E) queries, already rotated.
        k_BTKE: (B, T, K, E) keys, already rotated.
        v_BTKE: (B, T, K, E) values.
        segments_BT: (B, T) see ``allowed``.

    Returns:
        (B, T, H, E) float64.
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q_BTHE, k_BTKE, v_BTKE))
    num_rows, num_tokens, num_heads, width = q.shape
    per_group = num_heads // k.shape[2]
    may_see = allowed(segments_BT)
    out = np.zeros_like(q)
    for row in range(num_rows):
        for head in range(num_heads):
            keys, values = k[row, :, head // per_group], v[row, :, head // per_group]
            for t in range(num_tokens):
                seen = may_see[row, t]
                scores = keys[seen] @ q[row, t, head] / np.sqrt(width)
                weights = np.exp(scores - scores.max())
                out[row, t, head] = (weights / weights.sum()) @ values[seen]
    return out
