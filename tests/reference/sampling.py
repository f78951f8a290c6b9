"""Sampling a token from logits: repetition penalty (Keskar et al. 2019), temperature, top-k (Fan et al. 2018), nucleus
(Holtzman et al. 2020), min-p (Nguyen et al. 2024), inverse CDF."""

from __future__ import annotations

import numpy as np

from tests.reference.logprob import log_softmax


def penalised(logits_V, seen, penalty):
    """Logits of the ids in ``seen``, once each, divided by the penalty where positive and multiplied where not."""
    logits = np.array(logits_V, np.float64)
    for token in set(seen):
        logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
    return logits


def kept_tokens(logits_V, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """Ids that may be drawn: the top_k best, of those the fewest best whose renormalised probability reaches top_p,
    of those the ones at least min_p times as likely as the best.

    Ties at the bound are all kept. top_k 0, top_p 1 and min_p 0 keep everything.

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
    probs = np.exp(scaled - scaled.max())  # the best has 1
    return kept & (probs >= min_p)


def inverse_cdf(probs_V, uniform):
    """The smallest id whose cumulative probability exceeds ``uniform`` in [0, 1) (Devroye 1986, section III.2.1)."""
    cumulative = 0.0
    for token, probability in enumerate(np.asarray(probs_V, np.float64)):
        cumulative += probability
        if uniform < cumulative:
            return token
    return int(np.flatnonzero(np.asarray(probs_V) > 0)[-1])


def sample(logits_V, uniform, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """One token: (id, log-probability among the kept and renormalised). Temperature 0 takes the best id."""
    if temperature == 0.0:
        return int(np.argmax(logits_V)), float("nan")
    kept = kept_tokens(logits_V, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    logp = log_softmax(np.where(kept, np.asarray(logits_V, np.float64), -np.inf), temperature)
    token = inverse_cdf(np.exp(logp), uniform)
    return token, float(logp[token])
