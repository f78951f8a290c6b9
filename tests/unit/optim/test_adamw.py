"""What AdamW accepts, which parameters it decays, its state, and its bias corrections."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from mindspore import Parameter, Tensor
from mindspore import dtype as mstype

from llmstack.errors import UserError
from llmstack.optim.adamw import AdamW, bias_correction_table
from tests.tolerances import F32_RTOL

CONFIG = SimpleNamespace(betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
F32_ROUNDING = 2.0**-24


def params(*shapes):
    return [Parameter(Tensor(np.ones(shape, np.float32)), name=f"p{i}") for i, shape in enumerate(shapes)]


def test_bias_corrections_are_right_to_the_last_bit():
    table = bias_correction_table((0.9, 0.999))
    for step in (1, 2, 3, 10, 100, 5000):
        root = np.sqrt(1 - 0.999**step)
        np.testing.assert_allclose(table[step], [root / (1 - 0.9**step), root], rtol=F32_ROUNDING)
    # what float32 arithmetic would have given at the first step is a hundred times off
    naive = np.float32(1) - np.float32(0.999)
    assert abs(np.sqrt(naive) / np.sqrt(0.001) - 1) > 100 * F32_ROUNDING


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.0), (0.5, 0.99)])
def test_last_row_is_the_limit(betas):
    np.testing.assert_array_equal(bias_correction_table(betas)[-1], [1.0, 1.0])


def test_beta_too_near_one_is_refused():
    with pytest.raises(UserError, match=r"optim.betas: expected decay rates of at most 0.99999\d, got 0.9999999"):
        bias_correction_table((0.9, 0.9999999))


def test_decay_goes_by_dimensions_not_by_name():
    optimizer = AdamW(params((2, 2), (2,), (), (1, 2, 3)), CONFIG)
    assert optimizer.decayed_names() == ("p0", "p3")


def test_parameter_names_stay():
    given = params((2, 2), (2,))
    AdamW(given, CONFIG)
    assert [param.name for param in given] == ["p0", "p1"]


def test_state_round_trip():
    optimizer = AdamW(params((2, 2), (2,), ()), CONFIG)
    state = {name: np.full_like(array, 3) for name, array in optimizer.state().items()}
    assert set(state) == {"step", "m.p0", "v.p0", "m.p1", "v.p1", "m.p2", "v.p2"}
    optimizer.restore(state)
    for name, array in optimizer.state().items():
        np.testing.assert_array_equal(array, state[name])
        assert array.dtype == state[name].dtype


def test_state_is_a_copy():
    optimizer = AdamW(params((2,)), CONFIG)
    state = optimizer.state()
    optimizer.restore({name: array + 1 for name, array in state.items()})
    assert int(state["step"]) == 0 and not state["m.p0"].any()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s.pop("m.p0"), "m.p0"),
        (lambda s: s.update(extra=np.zeros(1)), "extra"),
        (lambda s: s.update({"v.p1": np.zeros(3, np.float32)}), "v.p1"),
    ],
)
def test_state_that_does_not_fit_is_refused(change, named):
    optimizer = AdamW(params((2, 2), (2,)), CONFIG)
    state = optimizer.state()
    change(state)
    with pytest.raises(UserError, match=f"differs in {named}"):
        optimizer.restore(state)


def test_nothing_to_train_is_refused():
    with pytest.raises(UserError, match="expected parameters to train, got none"):
        AdamW([], CONFIG)


def test_half_precision_parameters_are_refused():
    half = Parameter(Tensor(np.ones(2), mstype.float16), name="half")
    with pytest.raises(UserError, match="expected float32 parameters, got half in Float16"):
        AdamW([half], CONFIG)


def test_table_agrees_with_the_closed_form_everywhere():
    table = bias_correction_table((0.9, 0.99))
    steps = np.arange(1, len(table))
    np.testing.assert_allclose(table[1:, 1], np.sqrt(1 - 0.99**steps), rtol=F32_RTOL)
