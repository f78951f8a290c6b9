"""Contract tests for the parts that users write: call one from a test of yours."""

from llmstack.testing.advantages import check_advantage
from llmstack.testing.rewards import check_reward

__all__ = ["check_advantage", "check_reward"]
