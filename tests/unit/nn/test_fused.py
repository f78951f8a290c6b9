"""What surrounds the Ascend operators; the operators themselves run on no CPU and are replaced by stand-ins."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from llmstack.nn import composed, fused
from tests.helpers import kernel_checks as checks
from tests.helpers.cells import eager, run
from tests.reference.attention import allowed
from tests.tolerances import EXACT


def test_mask_is_one_on_hidden_keys():
    segments = np.array([[0, 1, 1, 2], [1, 1, 0, 0]], np.int32)
    mask = run(fused.FusedMask(), segments)
    assert mask.dtype == np.uint8 and mask.shape == (2, 1, 4, 4)
    np.testing.assert_array_equal(mask[:, 0] == 0, allowed(segments))
    np.testing.assert_array_equal(run(fused.FusedMask(2), segments)[:, 0] == 0, allowed(segments, 2))


class _QueriesBack(nn.Cell):
    """Stands in for the operator: gives the queries back as the mixed values."""

    def construct(self, query, *others):
        return query, query, query, query


def test_attention_hands_over_heads_in_bfloat16_and_merges_them():
    case = checks.ATTENTION_CASES["packed_grouped"]
    qkv, cos, sin, segments, _, _ = checks.attention_inputs(case)
    cell = fused.FusedAttention(4, 2, 4)
    assert (cell.flash.head_num, cell.flash.scale_value) == (4, 0.5)
    cell.flash = _QueriesBack()
    with eager():  # a graph moves the cast before the transpose, which no CPU has in bfloat16
        out = run(cell, qkv, cos, sin, run(fused.FusedMask(), segments))
    query, _, _ = composed.RotatedHeads(4, 2, 4)(*(ms.Tensor(a) for a in (qkv, cos, sin)), 2)
    rounded = ops.cast(ops.cast(query, ms.bfloat16), ms.float32).asnumpy()
    np.testing.assert_allclose(out, rounded.transpose(0, 2, 1, 3).reshape(out.shape), rtol=0, atol=EXACT)
    assert out.dtype == np.float32


def test_norm_and_swiglu_call_the_operator_of_the_formula(monkeypatch):
    calls = []
    monkeypatch.setattr(ops, "rms_norm", lambda *args: calls.append(args) or ("normalised", "inverse rms"))
    monkeypatch.setattr(ops, "swiglu", lambda *args: calls.append(args) or "gated")
    assert fused.FusedRmsNorm(1e-5).construct("hidden", "weight") == "normalised"
    assert fused.FusedSwiGlu().construct("gate_up") == "gated"
    assert calls == [("hidden", "weight", 1e-5), ("gate_up", -1)]
