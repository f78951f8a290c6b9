from __future__ import annotations

import pytest

from llmstack.generation import composed, kernels, native
from llmstack.nn import kernels as nn_kernels
from llmstack.nn.native.build import library
from tests.helpers.generation_checks import BY_HAND_CACHE


def built():
    return (
        kernels.cache_view(2),
        kernels.cache(BY_HAND_CACHE),
        kernels.sampler(0, 1.0),
        kernels.sampler(3, 1.0),
        kernels.sampler(0, 0.5),
    )


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(nn_kernels, "library", lambda: None)
    samplers = (composed.ComposedSampler,) * 3
    assert tuple(type(cell) for cell in built()) == (composed.ComposedView, composed.ComposedCache, *samplers)


@pytest.mark.skipif(library() is None, reason="no C++ compiler on this machine")
def test_with_a_compiler_all_but_the_limited_samplers_are_compiled_kernels():
    samplers = (native.NativeSampler, composed.ComposedSampler, composed.ComposedSampler)
    assert tuple(type(cell) for cell in built()) == (native.NativeView, native.NativeCache, *samplers)
