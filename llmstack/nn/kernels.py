"""The one place that knows devices: each function builds the best Cell for where graphs run now.

A Cell of the model asks here when it is built; the choice is a sub-cell, so no graph branches on the device.
On Ascend the formulas are fused operators; on a CPU they are compiled kernels where the machine has a C++ compiler,
else compositions of plain operators.
"""

from __future__ import annotations

import mindspore as ms
from mindspore import nn

from llmstack.nn import composed, fused
from llmstack.nn.native import ops as native
from llmstack.nn.native.build import library


def on_ascend() -> bool:
    """Whether graphs built now run on Ascend."""
    return ms.get_context("device_target") == "Ascend"


def has_native() -> bool:
    """Whether graphs built now run on a CPU for which the kernels are, or can be, compiled."""
    return ms.get_context("device_target") == "CPU" and library() is not None


def attention_mask(window: int | None = None) -> nn.Cell:
    """A Cell ``segments_BT -> mask``, in whatever form :func:`attention` takes it here. Called once a forward pass.

    Args:
        window: tokens a query sees, itself included; None: all before it.
    """
    if on_ascend():
        return fused.FusedMask(window)
    return nn.Identity() if has_native() else composed.ComposedMask(window)


def attention(num_heads: int, num_kv_heads: int, head_dim: int, window: int | None = None) -> nn.Cell:
    """A Cell ``(qkv, cos, sin, mask) -> merged heads`` that rotates, masks and attends.

    Args:
        num_heads: query heads H.
        num_kv_heads: key/value heads K.
        head_dim: head width E.
        window: tokens a query sees, itself included; None: all before it. The mask has it too.
    """
    if on_ascend():
        return fused.FusedAttention(num_heads, num_kv_heads, head_dim)
    if has_native():
        return native.NativeAttention(num_heads, num_kv_heads, head_dim, window)
    return composed.ComposedAttention(num_heads, num_kv_heads, head_dim)


def linear() -> nn.Cell:
    """A Cell ``(rows_NI, weight_OI) -> rows_NO``, a matrix product without bias."""
    return native.NativeLinear() if has_native() else composed.ComposedLinear()


def rms_norm(eps: float) -> nn.Cell:
    """A Cell ``(hidden_ND, weight_D) -> normalised_ND``.

    Args:
        eps: added to the mean square.
    """
    if on_ascend():
        return fused.FusedRmsNorm(eps)
    return native.NativeRmsNorm(eps) if has_native() else composed.ComposedRmsNorm(eps)


def swiglu() -> nn.Cell:
    """A Cell ``gate_up -> silu(gate) * up``."""
    if on_ascend():
        return fused.FusedSwiGlu()
    return native.NativeSwiGlu() if has_native() else composed.ComposedSwiGlu()


def token_nll() -> nn.Cell:
    """A Cell ``(logits_NV, labels_N, temperature) -> (nll_N, lse_N, entropy_N)``, all at logits / temperature."""
    return native.NativeTokenNll() if has_native() else composed.ComposedTokenNll()


def dropout(rate: float) -> nn.Cell:
    """A Cell ``(rows_NI, seed) -> rows_NI`` that zeroes a share of the numbers and scales the others.

    Args:
        rate: share of numbers that are zeroed.
    """
    return native.NativeDropout(rate) if has_native() else composed.ComposedDropout(rate)
