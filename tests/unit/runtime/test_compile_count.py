"""The counter counts what is compiled, and only that."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor, jit, nn

from llmstack.runtime import compile_count
from llmstack.runtime.device import setup


class Scale(nn.Cell):
    def construct(self, x, factor):
        return x * factor


@pytest.fixture(autouse=True)
def _device():
    setup("cpu")


def counted(action):
    before = compile_count.snapshot()
    action()
    return compile_count.snapshot() - before


def test_a_cell_counts_once_for_each_shape_and_python_value():
    cell = Scale()
    one, two = Tensor(np.ones(1, np.float32)), Tensor(np.ones(2, np.float32))
    assert counted(lambda: cell(one, 2.0)).graphs == 1
    assert counted(lambda: cell(one + 1, 2.0)) == compile_count.Compiles(0, 0.0)
    assert counted(lambda: cell(one, 3.0)).graphs == 1
    again = counted(lambda: cell(two, 3.0))
    assert again.graphs == 1 and again.seconds > 0


def test_a_jit_function_counts():
    @jit
    def double(x):
        return x * 2

    one = Tensor(np.ones(1, np.float32))
    assert counted(lambda: double(one)).graphs == 1
    assert counted(lambda: double(one)).graphs == 0


def test_installing_again_does_not_count_twice():
    compile_count.install()
    compile_count.install()
    assert counted(lambda: Scale()(Tensor(np.ones(3, np.float32)), 1.0)).graphs == 1
