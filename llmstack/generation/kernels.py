"""Chooses, when a Cell is built, how the operations that only decoding has are computed here.

The counterpart of :mod:`llmstack.nn.kernels`: compiled kernels on a CPU that has them, else plain operators.
"""

from __future__ import annotations

from mindspore import nn

from llmstack.generation import composed, native
from llmstack.generation.penalty import PenalisedSampler, SeenTokens
from llmstack.generation.rules import SamplingRules
from llmstack.generation.support import support
from llmstack.nn import kernels


def cache_view(context_len: int, window: int | None = None) -> nn.Cell:
    """A Cell ``(first_B, slot_1) -> view``: which slots a new token sees, in the form :func:`cache` takes it here.

    Args:
        context_len: slots T of the cache.
        window: tokens a query sees, itself included; None: all before it.
    """
    return native.NativeView(window) if kernels.has_native() else composed.ComposedView(context_len, window)


def cache(sizes: composed.CacheSizes) -> nn.Cell:
    """One layer's keys and values: ``fill(qkv, cos, sin)`` and ``(qkv, cos, sin, slot, view) -> merged heads``.

    Args:
        sizes: of the cache and of the heads.
    """
    return native.NativeCache(sizes) if kernels.has_native() else composed.ComposedCache(sizes)


def sampler(rules: SamplingRules, *, batch_rows: int, vocab_size: int) -> nn.Cell:
    """A Cell ``(logits_BV, temperature_1, uniform_B) -> (token_B, logp_B)``.

    Args:
        rules: which tokens may be drawn.
        batch_rows: rows B.
        vocab_size: V.
    """
    keep = support(rules)
    if rules.penalises:
        seen = SeenTokens(rules.repetition_penalty, batch_rows=batch_rows, vocab_size=vocab_size)
        return PenalisedSampler(keep, seen)
    return native.NativeSampler() if keep is None and kernels.has_native() else composed.ComposedSampler(keep)
