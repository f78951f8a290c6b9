from __future__ import annotations

import numpy as np
import pytest

from llmstack.generation.native import NativeCache, NativeSampler, NativeView
from llmstack.nn.native.build import library
from tests.helpers import generation_checks as checks
from tests.helpers.cells import run

pytestmark = pytest.mark.skipif(library() is None, reason="no C++ compiler on this machine")


@pytest.mark.parametrize("case", checks.CACHE_CASES)
def test_cache(case):
    checks.check_cache(
        NativeCache(checks.cache_sizes(checks.CACHE_CASES[case])), NativeView(), checks.CACHE_CASES[case]
    )


def test_cache_in_a_window():
    case = checks.CACHE_CASES["grouped_left_padded"]
    checks.check_cache(NativeCache(checks.cache_sizes(case)), NativeView(2), case, window=2)


def test_cache_by_hand():
    checks.check_cache_by_hand(NativeCache(checks.BY_HAND_CACHE), NativeView())


@pytest.mark.parametrize("case", checks.SAMPLER_CASES)
def test_sampler(case):
    checks.check_sampler(NativeSampler(), case)


def test_sampler_by_hand():
    checks.check_sampler_by_hand(NativeSampler())


def test_impossible_tokens_are_never_drawn():
    checks.check_impossible_tokens_are_never_drawn(NativeSampler())


def test_distribution():
    checks.check_distribution(NativeSampler())


def test_rare_tokens_of_a_large_vocabulary_keep_their_chance():
    """Half of the mass is one token, the other half 2^20 equal ones, each below the last bit of a float32 sum."""
    rare = 2**20
    logits = np.zeros((3, 1 + rare), np.float32)
    logits[:, 0] = np.log(rare)
    token, logp = run(NativeSampler(), logits, np.ones(1, np.float32), np.array([0.25, 0.625, 0.875], np.float32))
    # 0.625 is a quarter of the way through the rare ones, 0.875 three quarters; float32 uniforms resolve 2^-3 of one
    assert token[0] == 0
    assert np.abs(token[1:] - 1 - np.array([rare // 4, 3 * rare // 4])).max() <= 1
    np.testing.assert_array_equal(np.round(np.exp(-logp.astype(np.float64)) / rare), [0, 2, 2])


def test_a_row_that_is_not_a_number_still_gives_a_token():
    logits = np.zeros((2, 20), np.float32)
    logits[0] = np.nan
    token, logp = run(NativeSampler(), logits, np.ones(1, np.float32), np.array([0.9, 0.88], np.float32))
    assert token.tolist() == [0, 17]
    assert np.isnan(logp).tolist() == [True, False]
