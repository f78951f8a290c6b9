from __future__ import annotations

import pytest
from mindspore import Parameter, ParameterTuple, Tensor

from llmstack.nn import kernels as nn_kernels
from llmstack.nn.native.build import library
from llmstack.optim import composed, kernels, native


def built():
    weights = [ParameterTuple([Parameter(Tensor([1.0]), name=name)]) for name in ("p", "m", "v")]
    update = kernels.adam_update((0.9, 0.999), *weights, [True])
    return type(kernels.sum_of_squares()), type(update), type(kernels.buffers(weights[0]))


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(nn_kernels, "library", lambda: None)
    assert built() == (composed.ComposedSumOfSquares, composed.ComposedAdamUpdate, composed.ComposedBuffers)


@pytest.mark.skipif(library() is None, reason="no C++ compiler on this machine")
def test_with_a_compiler():
    assert built() == (native.NativeSumOfSquares, native.NativeAdamUpdate, native.NativeBuffers)
