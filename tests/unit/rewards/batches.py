"""Batches of answers for the tests of rewards."""

from __future__ import annotations

from llmstack.registry import REWARDS
from llmstack.rl.rewards_api import RewardBatch


def batch(responses, answers=None, *, prompts=None, num_tokens=None):
    count = len(responses)
    return RewardBatch(
        prompts=prompts or ["?"] * count,
        responses=list(responses),
        answers=list(answers) if answers is not None else [None] * count,
        num_tokens=num_tokens,
    )


def make(kind, **options):
    """The reward of a kind, from options as a recipe has them."""
    config = REWARDS.config(kind).model_validate({"kind": kind, **options})
    return REWARDS.get(kind)(config, where="stages.p.reward")
