from __future__ import annotations

from llmstack.models.actor_critic import ActorCritic
from llmstack.models.checkpoint_io import build_causal
from tests.helpers.stages import model_config


def test_the_head_is_trained_beside_the_policy_and_starts_at_0():
    policy = build_causal(model_config(), seed=0)
    names = [parameter.name for parameter in policy.trainable_params()]
    both = ActorCritic(policy)
    assert [parameter.name for parameter in both.trainable_params()] == [*names, "value_head.weight"]
    assert both.score.weight.shape == (1, policy.hidden_size)
    assert not both.score.weight.asnumpy().any()
