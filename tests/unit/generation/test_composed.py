from __future__ import annotations

import numpy as np
import pytest

from llmstack.generation.composed import ComposedCache, ComposedSampler, ComposedView
from llmstack.generation.support import TopK
from tests.helpers import generation_checks as checks
from tests.helpers.cells import run
from tests.reference.logprob import log_softmax
from tests.tolerances import EXACT, F32_ATOL


@pytest.mark.parametrize("case", checks.CACHE_CASES)
def test_cache(case):
    sizes = checks.cache_sizes(checks.CACHE_CASES[case])
    checks.check_cache(ComposedCache(sizes), ComposedView(sizes.context_len), checks.CACHE_CASES[case])


def test_cache_in_a_window():
    case = checks.CACHE_CASES["grouped_left_padded"]
    sizes = checks.cache_sizes(case)
    checks.check_cache(ComposedCache(sizes), ComposedView(sizes.context_len, 2), case, window=2)


def test_cache_by_hand():
    checks.check_cache_by_hand(ComposedCache(checks.BY_HAND_CACHE), ComposedView(2))


def test_view_shows_the_slots_from_the_first_to_the_new_one():
    view = run(ComposedView(5), np.array([0, 2], np.int32), np.array([3], np.int32))
    np.testing.assert_allclose(view[:, 0, 0] == 0, [[1, 1, 1, 1, 0], [0, 0, 1, 1, 0]], rtol=0, atol=EXACT)


@pytest.mark.parametrize("case", checks.SAMPLER_CASES)
def test_sampler(case):
    checks.check_sampler(ComposedSampler(None), case)


def test_sampler_by_hand():
    checks.check_sampler_by_hand(ComposedSampler(None))


def test_impossible_tokens_are_never_drawn():
    checks.check_impossible_tokens_are_never_drawn(ComposedSampler(None))


def test_distribution():
    checks.check_distribution(ComposedSampler(None))


def test_logp_counts_tokens_that_may_not_be_drawn():
    """The policy's own log-probability, whatever the sampler left out."""
    logits = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0]], np.float32)
    token, logp = run(ComposedSampler(TopK(1)), logits, np.ones(1, np.float32), np.array([0.1, 0.9], np.float32))
    assert token.tolist() == [2, 0]
    expected = [log_softmax(logits[0])[2], log_softmax(logits[1])[0]]
    np.testing.assert_allclose(logp, expected, rtol=0, atol=F32_ATOL)
