from __future__ import annotations

import math

import numpy as np
import pytest

from llmstack.rl.preference_stats import (
    ScoredPairs,
    calibration_error,
    length_correlation,
    pair_accuracy,
    preference_stats,
)
from tests.reference.preference_stats import calibration, pearson
from tests.tolerances import F64_ATOL


def logit(p):
    return math.log(p / (1 - p))


def test_accuracy_counts_a_tie_half():
    assert pair_accuracy(np.array([1.0, -1.0, 0.0, 2.0])) == 2.5 / 4
    assert math.isnan(pair_accuracy(np.zeros(0)))


def test_calibration_by_hand():
    # four choices made with 0.73, of which three are right: |3/4 - 0.73|; the same in two bins adds up by share
    three_of_four = [logit(0.73)] * 3 + [-logit(0.73)]
    assert calibration_error(np.array(three_of_four)) == pytest.approx(0.02, abs=F64_ATOL)
    surely_wrong = [*three_of_four, *[-logit(0.98)] * 4]
    assert calibration_error(np.array(surely_wrong)) == pytest.approx(0.5 * 0.02 + 0.5 * 0.98, abs=F64_ATOL)
    assert calibration_error(np.zeros(3)) == 0.0
    assert math.isnan(calibration_error(np.zeros(0)))


@pytest.mark.parametrize("seed", range(5))
def test_against_the_oracles(seed):
    rng = np.random.default_rng(seed)
    leads = rng.normal(scale=3.0, size=200)
    leads[:3] = (0.0, 700.0, -700.0)
    assert calibration_error(leads) == pytest.approx(calibration(leads.tolist()), abs=F64_ATOL)
    lengths = rng.integers(1, 50, 200)
    assert length_correlation(leads, lengths) == pytest.approx(pearson(leads.tolist(), lengths.tolist()), abs=F64_ATOL)


def test_a_model_that_says_what_is_true_is_calibrated():
    """Labels drawn with the model's own probabilities: the error is sampling noise alone, about 1 / sqrt(n)."""
    rng = np.random.default_rng(0)
    size = rng.exponential(2.0, 100_000)
    leads = np.where(rng.random(len(size)) < 1 / (1 + np.exp(-size)), size, -size)
    assert calibration_error(leads) < 0.01
    assert calibration_error(leads * 5) > 0.05 and calibration_error(leads / 5) > 0.05


def test_correlation_by_hand():
    assert length_correlation([1.0, 2.0, 3.0], [10, 20, 30]) == pytest.approx(1.0, abs=F64_ATOL)
    assert length_correlation([1.0, 2.0, 3.0], [3, 2, 1]) == pytest.approx(-1.0, abs=F64_ATOL)
    assert math.isnan(length_correlation([1.0, 1.0], [1, 2])) and math.isnan(length_correlation([1.0, 2.0], [3, 3]))


def test_pairs_by_length():
    # 12 and 5 against 10: longer and shorter; 11 against 10 differs by 1/11, less than a tenth
    pairs = ScoredPairs(
        chosen_N=np.array([1.0, 0.0, 2.0, 0.0], np.float32),
        rejected_N=np.array([0.0, 1.0, 0.0, 0.0], np.float32),
        chosen_length_N=np.array([12, 5, 11, 12]),
        rejected_length_N=np.array([10, 10, 10, 10]),
    )
    stats = preference_stats(pairs)
    assert (stats["accuracy_chosen_longer"], stats["pairs_chosen_longer"]) == (0.75, 2.0)
    assert (stats["accuracy_chosen_shorter"], stats["pairs_chosen_shorter"]) == (0.0, 1.0)
    assert (stats["accuracy_similar_length"], stats["pairs_similar_length"]) == (1.0, 1.0)
    assert (stats["accuracy"], stats["margin"]) == (2.5 / 4, 0.5)
    assert (stats["score_chosen"], stats["score_rejected"]) == (0.75, 0.25)
    lengths = [12, 5, 11, 12, 10, 10, 10, 10]
    assert stats["length_correlation"] == pytest.approx(pearson([1, 0, 2, 0, 0, 1, 0, 0], lengths), abs=F64_ATOL)


def test_a_group_without_pairs_has_no_accuracy():
    ones = np.ones(2)
    stats = preference_stats(ScoredPairs(ones, 0 * ones, ones, ones))
    assert math.isnan(stats["accuracy_chosen_longer"]) and stats["pairs_chosen_longer"] == 0.0
    assert math.isnan(stats["length_correlation"])
