"""The global norm against the oracle and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor, nn

from llmstack.optim.grad_norm import GlobalNorm
from tests.reference.adamw import global_norm
from tests.tolerances import F32_RTOL


class Norm(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = GlobalNorm()

    def construct(self, *grads):
        return self.norm(grads)


@pytest.fixture(scope="module")
def norm():
    return Norm()


def test_equals_the_oracle(norm):
    random = np.random.default_rng(0)
    grads = [random.normal(size=shape).astype(np.float32) for shape in ((300, 70), (70,), (2, 3, 4), ())]
    np.testing.assert_allclose(norm(*map(Tensor, grads)).asnumpy(), global_norm(grads), rtol=F32_RTOL)


def test_by_hand_and_when_not_finite(norm):
    pair = [np.array([[1.0, 2.0]], np.float32), np.array([2.0], np.float32)]
    assert float(norm(*map(Tensor, pair)).asnumpy()) == 3.0
    for bad in (np.nan, np.inf, -np.inf, 1e30):
        pair[1][0] = bad
        assert not np.isfinite(norm(*map(Tensor, pair)).asnumpy())
