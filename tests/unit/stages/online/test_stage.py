from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.load import load_recipe
from llmstack.errors import RunHalted
from llmstack.stages.online.stage import OnlineStage


class Answering(OnlineStage):
    """Only what takes no model."""

    trained = {}

    def __init__(self, config):
        self.config = config
        self.rolled = []

    def step(self, index):
        raise AssertionError

    def roll_out(self, prompts, table, generator):
        self.rolled.append(prompts)


@pytest.fixture
def stage():
    config = load_recipe("quickstart", ["stages.policy.batch_rows=6", "stages.policy.minibatches=3"]).config
    return Answering(config.stages["policy"].model_copy(update={"samples_per_prompt": 3}))


def test_each_prompt_is_answered_several_times_one_behind_the_other(stage):
    class Two:
        def next(self):
            return {"tokens": np.array([[1, 2], [3, 4]]), "lengths": np.array([2, 1]), "index": np.array([7, 5])}

    class Context:
        def generator(self, *names):
            return names

    stage.loader, stage.prompts, stage.context = Two(), None, Context()
    stage.answer("rollout", 1)
    assert stage.rolled[0]["index"].tolist() == [7, 7, 7, 5, 5, 5]
    assert stage.rolled[0]["tokens"].tolist() == [[1, 2]] * 3 + [[3, 4]] * 3


def test_a_policy_too_far_from_the_reference_halts_the_run(stage):
    class Context:
        name = "policy"

    stage.context = Context()
    stage.check_ceiling(stage.config.kl.ceiling)
    with pytest.raises(RunHalted, match=r"stages.policy.kl.ceiling: the answers are 99.0 nats from the reference"):
        stage.check_ceiling(99.0)
