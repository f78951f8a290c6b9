"""PPO whose scorer goes away: a step is undone, and taken again it is the same to the last bit."""

from __future__ import annotations

import pytest

from llmstack.errors import StepUndone
from tests.helpers import stages as tiny
from tests.helpers.chat_server import ChatServer, status
from tests.unit.stages.ppo.test_stage import make


@pytest.fixture(scope="module")
def server():
    with ChatServer(lambda body: {"scores": [float(text.count("e")) for text in body["responses"]]}) as running:
        yield running


@pytest.fixture(scope="module")
def stage(tmp_path_factory, server):
    parts = {
        "letters": {"reward": {"kind": "http", "url": server.url, "retries": 0}},
        "length": {"weight": 0.1, "reward": {"kind": "length_shaping", "mode": "target", "target": 4}},
    }
    return make(tmp_path_factory.mktemp("down"), {"kind": "combine", "of": parts}, epochs=1, minibatches=1)


def test_a_step_without_scores_is_undone_and_taken_again(stage, server):
    before = stage.state()
    straight = [stage.step(index) for index in (1, 2)]
    ended = stage.state()
    metrics = straight[0].metrics
    assert {"train/reward/letters", "train/reward/length", "train/reward/letters/http_unscored"} <= set(metrics)
    stage.restore(before)
    server.faults += [status(503)]
    with pytest.raises(StepUndone, match=r"stages\.stage\.reward\.of\.letters\.reward: .* status 503"):
        stage.step(1)
    stage.undo_step()
    assert tiny.same_state(before, stage.state())
    assert [stage.step(index) for index in (1, 2)] == straight
    assert tiny.same_state(ended, stage.state())
