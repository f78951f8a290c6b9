from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.models.checkpoint_io import build_causal
from llmstack.stages.single import SingleModelStage
from tests.helpers import stages as tiny


class Part:
    """Stands in for a learner or a loader: keeps what it is given."""

    def __init__(self, value):
        self.value = value

    def state(self):
        return self.value

    def restore(self, value):
        self.value = value


def stage(seed, learner, loader):
    made = tiny.bare(SingleModelStage)(SimpleNamespace(), tiny.context())
    made.model, made.learner, made.loader = build_causal(tiny.model_config(), seed=seed), Part(learner), Part(loader)
    return made


def test_state_holds_model_optimizer_and_data_position():
    one, two = stage(1, {"step": np.int32(3)}, {"cursor": 7}), stage(2, {}, {})
    two.restore(one.state())
    assert tiny.same_state(one.state(), two.state())
    assert two.final_model is two.model


def test_a_state_of_another_model_is_refused():
    one = stage(1, {}, {})
    state = one.state()
    with pytest.raises(UserError, match="checkpoint"):
        one.restore(type(state)({"other": np.zeros(1)}, {}, {"loader": {}}))
