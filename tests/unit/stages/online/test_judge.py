from __future__ import annotations

import math

import numpy as np

from llmstack.rl.rewards_api import Scores
from llmstack.stages.online.judge import judge
from tests.unit.stages.online.test_rollout import rollout

BATCHES = [{"weight": np.array([1.0, 1.0])}, {"weight": np.array([1.0, 0.0])}]


class Given:
    """Scores that are known, and which of them count."""

    def __init__(self, scores, scored=(True, True)):
        self._scores = Scores(score_B=np.array(scores), scored_B=np.array(scored))

    def score(self, rollout):
        return self._scores


def test_means_are_over_answers_that_count():
    numbers = []

    def answer(number, batch):
        numbers.append(number)
        return rollout()

    rewards = {
        "a": Given([1.0, 4.0]),
        "half": Given([5.0, 7.0], (False, True)),
        "none": Given([1.0, 1.0], (False, False)),
    }
    judged = judge(BATCHES, answer, rewards, lambda rollout: {"kl": np.array([2.0, 8.0])})
    assert numbers == [0, 1]
    assert judged.num_prompts == len(judged.samples) == 3
    assert math.isnan(judged.means.pop("none"))
    assert judged.means == {"length": 7 / 3, "finished": 2 / 3, "a": 2.0, "half": 7.0, "kl": 4.0}
    assert judged.samples[0] == {"prompt": "a", "response": "c", "finished": True}
