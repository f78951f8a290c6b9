from __future__ import annotations

import math

import numpy as np
import pytest

from llmstack.stages.preference.measures import Sums, baseline_of, measures
from tests.reference import preference as oracle

SUMS = Sums(loss=6.0, right=3.0, reward_good=2.0, reward_bad=-1.0, logp_good=-8.0, logp_bad=-6.0, drift=3.0)


def test_means_by_hand():
    found = measures(SUMS, count=4, num_good=4, num_bad=2, has_reference=True)
    assert found == {
        "loss": 1.5,
        "accuracy": 0.75,
        "reward_chosen": 0.5,
        "reward_rejected": -0.5,
        "logp_chosen": -2.0,
        "logp_rejected": -3.0,
        "margin": 1.0,
        "drift": 0.5,
    }


def test_a_side_without_answers_has_no_mean():
    found = measures(SUMS, count=4, num_good=4, num_bad=0, has_reference=False)
    assert math.isnan(found["reward_rejected"]) and math.isnan(found["margin"]) and "drift" not in found


@pytest.mark.parametrize("ratios", [[1.0, 2.0, 6.0], [-4.0, 1.0]])
def test_the_baseline_is_a_mean_that_is_never_negative(ratios):
    assert baseline_of(np.array(ratios)) == oracle.baseline(ratios)
    assert baseline_of(np.zeros(0)) == 0.0
