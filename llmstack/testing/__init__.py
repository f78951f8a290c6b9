"""Contract tests for the parts that users write: call one from a test of yours."""

from llmstack.testing.rewards import check_reward

__all__ = ["check_reward"]
