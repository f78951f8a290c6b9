from __future__ import annotations

import mindspore as ms
import pytest
from mindspore import nn

from llmstack.nn import composed, fused, kernels
from llmstack.nn.native import ops as native

CHOICES = {
    "Ascend": (
        fused.FusedMask,
        fused.FusedAttention,
        fused.FusedRmsNorm,
        composed.ComposedLinear,
        fused.FusedSwiGlu,
        composed.ComposedTokenNll,
        composed.ComposedDropout,
    ),
    "CPU with a compiler": (
        nn.Identity,
        native.NativeAttention,
        native.NativeRmsNorm,
        native.NativeLinear,
        native.NativeSwiGlu,
        native.NativeTokenNll,
        native.NativeDropout,
    ),
    "CPU without one": (
        composed.ComposedMask,
        composed.ComposedAttention,
        composed.ComposedRmsNorm,
        composed.ComposedLinear,
        composed.ComposedSwiGlu,
        composed.ComposedTokenNll,
        composed.ComposedDropout,
    ),
}


@pytest.mark.parametrize("machine", CHOICES)
def test_each_machine_gets_its_kernels(machine, monkeypatch):
    monkeypatch.setattr(ms, "get_context", lambda key: machine.split()[0])
    monkeypatch.setattr(kernels, "library", lambda: "kernels.so" if "with a" in machine else None)
    built = (
        kernels.attention_mask(),
        kernels.attention(4, 2, 8),
        kernels.rms_norm(1e-5),
        kernels.linear(),
        kernels.swiglu(),
        kernels.token_nll(),
        kernels.dropout(0.1),
    )
    assert tuple(type(cell) for cell in built) == CHOICES[machine]
