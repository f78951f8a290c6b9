"""Scaled dot-product attention (Vaswani et al. 2017, equation 1); grouped queries (Ainslie et al. 2023, 2.2)."""

from __future__ import annotations

import numpy as np


def allowed(segments_BT, window=None):
    """Which key a query may see: same segment, not later, and within the window (Beltagy et al. 2020, section 3.1).

    Args:
        segments_BT: (B, T) document number of each token, 0 for pads (pads see earlier pads and themselves).
        window: how many keys a query sees at most, itself included; None for all.

    Returns:
        (B, T, T) bool, [row, query, key]; every query sees at least itself.
    """
    segments = np.asarray(segments_BT)
    num_tokens = segments.shape[1]
    same = segments[:, :, None] == segments[:, None, :]
    not_later = np.arange(num_tokens)[None, :] <= np.arange(num_tokens)[:, None]
    near = np.arange(num_tokens)[:, None] - np.arange(num_tokens)[None, :] < (window or num_tokens)
    return same & not_later[None] & near[None]


def attention(q_BTHE, k_BTKE, v_BTKE, segments_BT, window=None):
    """``softmax(q k^T / sqrt(E)) v`` over the allowed keys; query head h reads key/value head ``h // (H / K)``.

    Args:
        q_BTHE: (B, T, H, E) queries, already rotated.
        k_BTKE: (B, T, K, E) keys, already rotated.
        v_BTKE: (B, T, K, E) values.
        segments_BT: (B, T) see ``allowed``.
        window: see ``allowed``.

    Returns:
        (B, T, H, E) float64.
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q_BTHE, k_BTKE, v_BTKE))
    num_rows, num_tokens, num_heads, width = q.shape
    per_group = num_heads // k.shape[2]
    may_see = allowed(segments_BT, window)
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


def attention_gradient(q_BTHE, k_BTKE, v_BTKE, *, segments_BT, upstream_BTHE, window=None):
    """Gradient of ``sum(upstream * attention(q, k, v))`` (Dao et al. 2022, "FlashAttention", appendix B.2).

    With P the weights of one head: ``dv = P^T do``, ``dP = do v^T``, ``dS = P * (dP - rowsum(P * dP))``,
    ``dq = dS k / sqrt(E)``, ``dk = dS^T q / sqrt(E)``; a shared key/value head adds up those of its query heads.

    Args:
        q_BTHE: (B, T, H, E) queries, already rotated. k_BTKE, v_BTKE: (B, T, K, E). segments_BT: see ``allowed``.
        upstream_BTHE: (B, T, H, E) gradient in the output. window: see ``allowed``.

    Returns:
        (dq, dk, dv) float64 in the shapes of q, k and v.
    """
    q, k, v, upstream = (np.asarray(x, np.float64) for x in (q_BTHE, k_BTKE, v_BTKE, upstream_BTHE))
    width, per_group = q.shape[-1], q.shape[2] // k.shape[2]
    may_see = allowed(segments_BT, window)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for row in range(q.shape[0]):
        for head in range(q.shape[2]):
            shared = head // per_group
            queries, keys, values = q[row, :, head], k[row, :, shared], v[row, :, shared]
            scores = np.where(may_see[row], queries @ keys.T / np.sqrt(width), -np.inf)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            in_weights = upstream[row, :, head] @ values.T
            in_scores = weights * (in_weights - (weights * in_weights).sum(axis=-1, keepdims=True))
            dv[row, :, shared] += weights.T @ upstream[row, :, head]
            dq[row, :, head] = in_scores @ keys / np.sqrt(width)
            dk[row, :, shared] += in_scores.T @ queries / np.sqrt(width)
    return dq, dk, dv
