from __future__ import annotations

import pytest

from llmstack.generation import composed, kernels, native
from llmstack.generation.penalty import PenalisedSampler
from llmstack.generation.rules import ALL_TOKENS, SamplingRules
from llmstack.nn import kernels as nn_kernels
from llmstack.nn.native.build import library
from tests.helpers.generation_checks import BY_HAND_CACHE


def sampler(rules):
    return kernels.sampler(rules, batch_rows=2, vocab_size=3)


def built():
    return (
        kernels.cache_view(2),
        kernels.cache(BY_HAND_CACHE),
        sampler(ALL_TOKENS),
        sampler(SamplingRules(top_k=3)),
        sampler(SamplingRules(top_p=0.5)),
    )


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(nn_kernels, "library", lambda: None)
    samplers = (composed.ComposedSampler,) * 3
    assert tuple(type(cell) for cell in built()) == (composed.ComposedView, composed.ComposedCache, *samplers)


@pytest.mark.skipif(library() is None, reason="no C++ compiler on this machine")
def test_with_a_compiler_all_but_the_limited_samplers_are_compiled_kernels():
    samplers = (native.NativeSampler, composed.ComposedSampler, composed.ComposedSampler)
    assert tuple(type(cell) for cell in built()) == (native.NativeView, native.NativeCache, *samplers)


def test_a_penalty_needs_a_sampler_that_remembers():
    assert type(sampler(SamplingRules(repetition_penalty=1.1))) is PenalisedSampler
