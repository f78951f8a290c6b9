from __future__ import annotations

import pytest

from llmstack.nn.native.build import library
from llmstack.optim.native import NativeAdamUpdate, NativeBuffers, NativeSumOfSquares
from tests.helpers import optim_checks as checks

pytestmark = pytest.mark.skipif(library() is None, reason="no C++ compiler on this machine")


def test_update():
    checks.check_update(NativeAdamUpdate)


def test_step_not_taken():
    checks.check_step_not_taken(NativeAdamUpdate)


def test_sum_of_squares():
    checks.check_sum_of_squares(NativeSumOfSquares())


def test_sum_is_not_finite():
    checks.check_sum_is_not_finite(NativeSumOfSquares())


def test_buffers():
    checks.check_buffers(NativeBuffers)
