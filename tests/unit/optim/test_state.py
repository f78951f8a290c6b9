from __future__ import annotations

import numpy as np
import pytest
from mindspore import Parameter, Tensor

from llmstack.errors import UserError
from llmstack.optim.state import adam_targets, read_state, restore_state


def targets():
    parts = [[Parameter(Tensor(np.full((2,), v, np.float32)), name=f"{n}{i}") for i in range(2)] for n, v in NUMBERS]
    return adam_targets(Parameter(Tensor(np.array([3], np.int32)), name="step"), *parts)


NUMBERS = (("p", 1.0), ("m", 2.0), ("v", 4.0))


def test_a_state_comes_back_in_the_parameters_own_shapes():
    held = targets()
    state = read_state(held)
    assert set(state) == {"step", "m.p0", "m.p1", "v.p0", "v.p1"}
    assert state["step"].shape == () and state["m.p0"].tolist() == [2.0, 2.0] and state["v.p1"].tolist() == [4.0, 4.0]
    other = {name: array + 1 for name, array in state.items()}
    restore_state(held, other)
    for name, array in read_state(held).items():
        np.testing.assert_array_equal(array, other[name])
    assert state["step"] == 3


def test_a_state_that_differs_changes_nothing():
    held = targets()
    state = read_state(held)
    wrong = {name: array + 1 for name, array in state.items() if name != "m.p0"}
    with pytest.raises(UserError, match="differs in m.p0"):
        restore_state(held, wrong)
    for name, array in read_state(held).items():
        np.testing.assert_array_equal(array, state[name])
