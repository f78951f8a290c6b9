"""Learning-rate schedules as a ratio of the peak, in optimizer steps.

``step`` counts from 0 and names the step about to be taken. Warm-up: ``(step + 1) / warmup``, so the first step learns
and step ``warmup - 1`` is at the peak. After it, ``progress = (step - warmup) / (total - warmup)`` in [0, 1).
Cosine: Loshchilov & Hutter 2017 (SGDR, equation 5) without restarts. WSD: Hu et al. 2024 (MiniCPM, section 4.2),
with the linear decay of Hägele et al. 2024.
"""

from __future__ import annotations

import math


def _warmup(step, warmup):
    return (step + 1) / warmup if step < warmup else None


def _progress(step, start, end):
    return min(1.0, max(0.0, (step - start) / max(1, end - start)))


def constant(step, total, warmup):
    """1 after the warm-up."""
    return _warmup(step, warmup) or 1.0


def linear(step, total, warmup, final_ratio):
    """From 1 to ``final_ratio`` on a line."""
    return _warmup(step, warmup) or 1.0 + (final_ratio - 1.0) * _progress(step, warmup, total)


def cosine(step, total, warmup, final_ratio):
    """``final + (1 - final) (1 + cos(pi progress)) / 2``."""
    cosine_part = 0.5 * (1.0 + math.cos(math.pi * _progress(step, warmup, total)))
    return _warmup(step, warmup) or final_ratio + (1.0 - final_ratio) * cosine_part


def wsd(step, total, warmup, final_ratio, decay_ratio):
    """1, then a line to ``final_ratio`` over the last ``round(decay_ratio * total)`` steps, after the warm-up."""
    start = max(warmup, total - round(decay_ratio * total))
    return _warmup(step, warmup) or 1.0 + (final_ratio - 1.0) * _progress(step, start, total)
