from __future__ import annotations

import numpy as np
import pytest

from llmstack.rl.rewards_api import Scores
from llmstack.stages.grpo.gathering import gather
from llmstack.stages.online.rollout import join
from tests.unit.stages.online.test_rollout import rollout


def drawing(*batches):
    """Draws of two groups of two answers each, with these scores; None is unscored."""
    asked = []

    def draw(number):
        asked.append(number)
        values = batches[number]
        scored = np.array([value is not None for value in values])
        numbers = np.array([value or 0.0 for value in values], np.float32)
        return join([rollout(), rollout()]), Scores(score_B=numbers, scored_B=scored)

    return draw, asked


def test_without_dynamic_sampling_the_batch_comes_as_it_is():
    draw, asked = drawing([1, 1, 0, 1])
    got = gather(draw, group_size=2, max_refills=None)
    assert asked == [0] and got.metrics == {}
    assert got.rows_B.tolist() == [0, 1, 2, 3] and got.live_B.all()


def test_groups_without_spread_are_replaced():
    draw, asked = drawing([1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1])
    got = gather(draw, group_size=2, max_refills=5)
    assert asked == [0, 1, 2]
    # drawn groups: flat, good, flat, flat, good, good; two are wanted
    assert got.rows_B.tolist() == [2, 3, 8, 9] and got.live_B.all()
    assert got.metrics == {"groups_dropped": 3, "groups_left_aside": 1, "groups_trained": 2, "refills": 2}
    assert len(got.drawn.mask_BR) == len(got.scores.score_B) == 12
    assert got.scores.score_B[got.rows_B].tolist() == [0, 1, 1, 0]


def test_refills_are_bounded_and_what_is_missing_takes_no_part():
    draw, asked = drawing([1, 1, 0, 1], [0, 0, 0, 0])
    got = gather(draw, group_size=2, max_refills=1)
    assert asked == [0, 1]
    assert got.rows_B.tolist() == [2, 3, 0, 1] and got.live_B.tolist() == [True, True, False, False]
    assert got.metrics["groups_trained"] == 1 and got.metrics["groups_dropped"] == 3


@pytest.mark.parametrize("values", [[None, 1, 0, 1], [None, None, 0, 1]])
def test_an_unscored_answer_makes_no_spread(values):
    draw, _ = drawing(values)
    got = gather(draw, group_size=2, max_refills=0)
    assert got.rows_B[:2].tolist() == [2, 3] and got.metrics["groups_dropped"] == 1


def test_a_batch_that_is_good_asks_no_more():
    draw, asked = drawing([1, 0, 0, 1])
    assert gather(draw, group_size=2, max_refills=3).live_B.all() and asked == [0]
