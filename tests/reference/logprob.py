"""Log-probabilities and entropy of a categorical at a temperature."""

from __future__ import annotations

import numpy as np


def log_softmax(logits, temperature=1.0):
    """``z/T - logsumexp(z/T)`` over the last dim, float64."""
    scaled = np.asarray(logits, np.float64) / temperature
    scaled = scaled - scaled.max(axis=-1, keepdims=True)
    return scaled - np.log(np.exp(scaled).sum(axis=-1, keepdims=True))


def token_logprobs(logits_NV, labels_N, temperature=1.0):
    """``log softmax(z/T)[label]`` for each row.

    Args:
        logits_NV: (N, V). labels_N: (N,) ids. temperature: T > 0.

    Returns:
        (N,) float64.
    """
    labels = np.asarray(labels_N)
    return log_softmax(logits_NV, temperature)[np.arange(labels.size), labels]


def entropy(logits_NV, temperature=1.0):
    """Shannon entropy in nats of ``softmax(z/T)``: (N,) float64."""
    logp = log_softmax(logits_NV, temperature)
    return -(np.exp(logp) * logp).sum(axis=-1)


def token_logprobs_gradient(logits_NV, labels_N, upstream_N, temperature=1.0):
    """Gradient of ``sum(upstream * token_logprobs)`` in the logits: ``upstream (onehot - softmax) / T``, (N, V)."""
    labels = np.asarray(labels_N)
    gradient = -np.exp(log_softmax(logits_NV, temperature))
    gradient[np.arange(labels.size), labels] += 1.0
    return gradient * np.asarray(upstream_N, np.float64)[:, None] / temperature


def entropy_gradient(logits_NV, upstream_N, temperature=1.0):
    """Gradient of ``sum(upstream * entropy)`` in the logits: ``-upstream * p * (log p + H) / T``, (N, V)."""
    logp = log_softmax(logits_NV, temperature)
    total = entropy(logits_NV, temperature)[:, None]
    return -np.asarray(upstream_N, np.float64)[:, None] * np.exp(logp) * (logp + total) / temperature
