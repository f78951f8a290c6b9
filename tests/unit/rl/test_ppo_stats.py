from __future__ import annotations

import numpy as np
import pytest

from llmstack.rl.ppo_stats import answer_stats, explained_variance
from llmstack.rl.rewards_api import Scores
from tests.tolerances import F64_ATOL


def test_explained_variance_by_hand():
    # returns 0, 2 (variance 1); values 0, 1: errors 0, 1 (variance 1/4)
    returns, value, mask = np.array([[0.0, 2.0, np.nan]]), np.array([[0.0, 1.0, np.inf]]), np.array([[1, 1, 0]])
    assert explained_variance(value, returns, mask) == pytest.approx(0.75, abs=F64_ATOL)


def test_explained_variance_of_perfect_useless_and_harmful_values():
    returns, mask = np.random.default_rng(0).normal(size=(4, 8)), np.ones((4, 8))
    assert explained_variance(returns, returns, mask) == pytest.approx(1.0, abs=F64_ATOL)
    assert explained_variance(np.full((4, 8), 3.0), returns, mask) == pytest.approx(0.0, abs=F64_ATOL)
    assert explained_variance(-returns, returns, mask) == pytest.approx(-3.0, abs=F64_ATOL)


def test_explained_variance_of_constant_returns_is_0():
    assert explained_variance(np.zeros((2, 2)), np.ones((2, 2)), np.ones((2, 2))) == 0.0
    assert explained_variance(np.zeros((2, 2)), np.ones((2, 2)), np.zeros((2, 2))) == 0.0


def test_answer_stats_by_hand():
    scores = Scores(score_B=np.array([1.0, 3.0, 0.0, 2.0]), scored_B=np.array([True, True, False, True]))
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 0]])
    stats = answer_stats(scores, np.array([0, 1, 1, 1]), mask)
    assert stats == pytest.approx(
        {
            "score_mean": 2.0,
            "score_std": (2 / 3) ** 0.5,
            "unscored_ratio": 0.25,
            "truncated_ratio": 0.25,
            "response_tokens": 2.0,
            "empty_ratio": 0.25,
        },
        abs=F64_ATOL,
    )


def test_answer_stats_without_any_score_are_finite():
    scores = Scores(score_B=np.zeros(2), scored_B=np.zeros(2, bool))
    assert all(np.isfinite(list(answer_stats(scores, np.ones(2), np.zeros((2, 3))).values())))
