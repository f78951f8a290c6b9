from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.rl.score_scale import ScoreScale
from tests.tolerances import F64_RTOL


def scale(*batches):
    made = ScoreScale()
    for batch in batches:
        made.update(np.array(batch, np.float32), np.ones(len(batch), bool))
    return made


@given(st.lists(st.lists(st.integers(-50, 50), max_size=6), max_size=6))
def test_batch_by_batch_is_all_at_once(batches):
    scores = [score for batch in batches for score in batch]
    spread = np.std(scores) if len(scores) > 1 else 0.0
    assert scale(*batches).std == pytest.approx(spread or 1.0, rel=F64_RTOL)


def test_by_hand():
    # 1, 3 have mean 2; with 8 the mean is 4 and the squares 9 + 1 + 16
    assert scale([1, 3], [8]).std == pytest.approx(np.sqrt(26 / 3), rel=F64_RTOL)


def test_without_spread_scores_stay_as_they_are():
    assert scale().std == scale([5]).std == scale([2, 2], [2]).std == 1.0


def test_unscored_answers_do_not_count():
    made = ScoreScale()
    made.update(np.array([1.0, 100.0, 3.0]), np.array([True, False, True]))
    made.update(np.array([7.0]), np.array([False]))
    assert made.std == 1.0 and made.state() == {"count": 2, "mean": 2.0, "squares": 2.0}


def test_it_goes_on_from_a_checkpoint_bitwise():
    straight, resumed = scale([0.1, 0.7], [1.3], [2.9, -4.1]), ScoreScale()
    resumed.restore(json.loads(json.dumps(scale([0.1, 0.7], [1.3]).state())))
    resumed.update(np.array([2.9, -4.1], np.float32), np.ones(2, bool))
    assert resumed.state() == straight.state()
