from __future__ import annotations

from llmstack.optim.composed import ComposedAdamUpdate, ComposedBuffers, ComposedSumOfSquares
from tests.helpers import optim_checks as checks


def test_update():
    checks.check_update(ComposedAdamUpdate)


def test_step_not_taken():
    checks.check_step_not_taken(ComposedAdamUpdate)


def test_sum_of_squares():
    checks.check_sum_of_squares(ComposedSumOfSquares())


def test_sum_is_not_finite():
    checks.check_sum_is_not_finite(ComposedSumOfSquares())


def test_buffers():
    checks.check_buffers(ComposedBuffers)
