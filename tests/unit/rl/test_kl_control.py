from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.errors import RunHalted
from llmstack.rl.kl_control import AdaptiveKl, FixedKl, kl_controller
from tests.reference import kl_controllers as reference
from tests.tolerances import F64_ATOL, F64_RTOL


@given(st.lists(st.floats(-5, 50), min_size=1, max_size=8), st.floats(0.1, 20), st.integers(1, 512))
def test_equals_the_oracle(observed, target, num_answers):
    controller, beta = AdaptiveKl(0.2, target=target, horizon=1000), 0.2
    for kl in observed:
        controller.update(kl, num_answers)
        beta = reference.adaptive(beta, kl, target=target, horizon=1000, num_answers=num_answers)
    assert controller.beta == pytest.approx(beta, rel=F64_RTOL)


@pytest.mark.parametrize(
    ("kl", "beta"),
    [(6.0, 0.1), (6.6, 0.101), (5.4, 0.099), (60.0, 0.102), (0.0, 0.098), (-1.0, 0.098)],
    ids=["on target", "10% above", "10% below", "far above", "far below", "negative sample"],
)
def test_by_hand(kl, beta):
    # 100 answers of a horizon of 1000: the error, at most 0.2, moves beta by a tenth of itself
    controller = AdaptiveKl(0.1, target=6.0, horizon=1000)
    controller.update(kl, 100)
    assert controller.beta == pytest.approx(beta, abs=F64_ATOL)


def test_state_round_trip_goes_on_the_same():
    first = AdaptiveKl(0.1, target=6.0, horizon=1000)
    first.update(9.0, 64)
    second = AdaptiveKl(0.1, target=6.0, horizon=1000)
    second.restore(first.state())
    for controller in (first, second):
        controller.update(3.0, 64)
    assert first.beta == second.beta


@pytest.mark.parametrize("kl", [float("nan"), float("inf")])
def test_kl_that_is_no_number_halts_the_run(kl):
    with pytest.raises(RunHalted, match="expected a finite KL"):
        AdaptiveKl(0.1, target=6.0, horizon=1000).update(kl, 64)


def test_fixed_never_moves():
    controller = FixedKl(0.3)
    controller.update(100.0, 64)
    controller.restore(controller.state())
    assert controller.beta == 0.3


def test_controller_of_a_config():
    fixed = kl_controller(SimpleNamespace(beta=0.3, target=None, horizon=None))
    assert isinstance(fixed, FixedKl) and fixed.beta == 0.3
    adaptive = kl_controller(SimpleNamespace(beta=0.1, target=6.0, horizon=1000))
    assert isinstance(adaptive, AdaptiveKl)
    assert (adaptive.beta, adaptive.target, adaptive.horizon) == (0.1, 6.0, 1000)
