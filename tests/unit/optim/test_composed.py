from __future__ import annotations

import pytest

from llmstack.optim.composed import ComposedAdamUpdate, ComposedSumOfSquares
from tests.helpers import optim_checks as checks


@pytest.mark.parametrize("shape", checks.SHAPES.values(), ids=checks.SHAPES)
def test_update(shape):
    checks.check_update(ComposedAdamUpdate(checks.BETAS), shape)


def test_step_not_taken():
    checks.check_step_not_taken(ComposedAdamUpdate(checks.BETAS))


@pytest.mark.parametrize("shape", checks.SHAPES.values(), ids=checks.SHAPES)
def test_sum_of_squares(shape):
    checks.check_sum_of_squares(ComposedSumOfSquares(), shape)


def test_sum_is_not_finite():
    checks.check_sum_is_not_finite(ComposedSumOfSquares())
