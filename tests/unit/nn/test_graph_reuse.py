from __future__ import annotations

import numpy as np
from mindspore import Parameter, Tensor, nn

from llmstack.nn.graph_reuse import share_graph
from tests.helpers.cells import Differentiated


class Scaled(nn.Cell):
    """x times a Parameter and a plain number."""

    def __init__(self, weight, factor):
        super().__init__()
        self.weight = Parameter(Tensor(np.float32(weight)), name="weight")
        self.factor = factor
        share_graph(self, factor)

    def construct(self, x):
        return x * self.weight * self.factor


class Chain(nn.Cell):
    def __init__(self, *cells):
        super().__init__()
        self.copies = nn.CellList(list(cells))

    def construct(self, x):
        for cell in self.copies:
            x = cell(x)
        return x


def test_copies_keep_their_own_parameters_and_other_facts_their_own_graph():
    chain = Chain(Scaled(2.0, 1.0), Scaled(3.0, 1.0), Scaled(5.0, 10.0))
    one = np.ones(1, np.float32)
    (out,), (dx,), gradients = Differentiated(chain, 1)((one,), (one,))
    assert float(out[0]) == float(dx[0]) == 300.0
    assert {name: float(value) for name, value in gradients.items()} == {
        "copies.0.weight": 150.0,
        "copies.1.weight": 100.0,
        "copies.2.weight": 60.0,
    }
