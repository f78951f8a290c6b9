"""Sampling a token from logits: temperature, top-k (Fan et al. 2018), nucleus (Holtzman et al. 2020), inverse CDF."""

from __future__ import annotations

import numpy as np

from tests.reference.logprob import log_softmax


def kept_tokens(logits_V, *, temperature=1.0, top_k=0, top_p=1.0):
    """Ids that may be drawn: the top_k best, of those the fewest best whose renormalised probability reaches top_p.

    Ties at the bound are all kept. top_k 0 and top_p 1 keep everything.

    Returns:
        (V,) bool.
    """
    scaled = np.asarray(logits_V, np.float64) / temperature
    kept = np.ones(scaled.size, bool)
    if top_k:
        kept &= scaled >= np.sort(scaled)[::-1][min(top_k, scaled.size) - 1]
    if top_p < 1.0:
        probs = np.where(kept, np.exp(scaled - scaled.max()), 0.0)
        probs /= probs.sum()
        for token in range(scaled.size):
            better = probs[probs > probs[token]].sum()
            kept[token] &= better < top_p
    return kept


def inverse_cdf(probs_V, uniform):
    """The smallest id whose cumulative probability exceeds ``uniform`` in [0, 1) (Devroye 1986, section III.2.1)."""
    cumulative = 0.0
    for token, probability in enumerate(np.asarray(probs_V, np.float64)):
        cumulative += probability
        if uniform < cumulative:
            return token
    return int(np.flatnonzero(np.asarray(probs_V) > 0)[-1])


def sample(logits_V, uniform, *, temperature=1.0, top_k=0, top_p=1.0):
    """One token: (id, log-probability among the kept and renormalised). Temperature 0 takes the best id."""
    if temperature == 0.0:
        return int(np.argmax(logits_V)), float("nan")
    kept = kept_tokens(logits_V, temperature=temperature, top_k=top_k, top_p=top_p)
    logp = log_softmax(np.where(kept, np.asarray(logits_V, np.float64), -np.inf), temperature)
    token = inverse_cdf(np.exp(logp), uniform)
    return token, float(logp[token])
