from __future__ import annotations

import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from mindspore import dtype as mstype

from llmstack.nn.native.build import library
from llmstack.nn.native.custom import kernel, writing_kernel

pytestmark = pytest.mark.skipif(library() is None, reason="no C++ compiler on this machine")


class ReadWriteRead(nn.Cell):
    """Reads a Parameter with plain operators before and after a kernel writes it."""

    def __init__(self):
        super().__init__()
        self.param = Parameter(Tensor(np.array([1.0, 2.0], np.float32)), name="param")
        self.moment1 = Parameter(Tensor(np.zeros(2, np.float32)), name="moment1")
        self.moment2 = Parameter(Tensor(np.zeros(2, np.float32)), name="moment2")
        self.decayed = Tensor(np.ones(1, np.int32))
        self.kernel = writing_kernel("adamw", lambda *_: (1,), lambda factors, *_: factors, num_read=3, num_written=3)

    def construct(self, grad, factors):
        before = self.param * 1.0
        self.kernel(factors, self.decayed, grad, self.param, self.moment1, self.moment2)
        return before, self.param * 1.0


def test_a_written_parameter_is_read_in_the_order_of_the_program():
    cell = ReadWriteRead()
    # only the decay acts: take 1, scale 1, rate 0, fresh moments 0.1, eps 1, keep 0.5
    factors = Tensor(np.array([1.0, 1.0, 0.0, 0.1, 0.1, 1.0, 0.5], np.float32))
    for expected in ([1.0, 2.0], [0.5, 1.0]):
        before, after = cell(Tensor(np.ones(2, np.float32)), factors)
        np.testing.assert_array_equal(before.asnumpy(), expected)
        np.testing.assert_array_equal(after.asnumpy(), np.array(expected) / 2)


def test_shapes_and_dtypes_come_from_the_inputs():
    class Norms(nn.Cell):
        def __init__(self):
            super().__init__()
            self.kernel = kernel("sum_of_squares", lambda grad: (1,), lambda grad: grad)

        def construct(self, x):
            return self.kernel(x)

    out = Norms()(Tensor(np.array([[3.0, 4.0]], np.float32)))
    assert out.shape == (1,) and out.dtype == mstype.float32 and float(out.asnumpy()[0]) == 25.0
