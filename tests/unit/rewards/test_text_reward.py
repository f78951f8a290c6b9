from __future__ import annotations

from llmstack.config.rewards import RewardSourceConfig
from llmstack.rewards.text_reward import TextReward
from tests.unit.rewards.batches import batch


class Shout(TextReward[RewardSourceConfig]):
    def __call__(self, batch):
        return [float(text.isupper()) for text in batch.responses]


def test_a_text_reward_knows_its_options_and_its_place():
    config = RewardSourceConfig(kind="pep257_style")
    made = Shout(config, where="stages.p.reward")
    assert (made.config, made.where) == (config, "stages.p.reward")
    assert made(batch(["A", "b"])) == [1.0, 0.0]
    assert made.metrics() == {}
