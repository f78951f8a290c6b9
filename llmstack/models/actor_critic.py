"""A language model and a value head on one trunk."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn

from llmstack.models.causal_lm import NextTokenNetwork
from llmstack.nn.heads import ScalarHead


class ActorCritic(nn.Cell):
    """A policy whose trunk also feeds a value head; the head starts at 0, so that every value is 0 at first.

    Args:
        policy: the language model, as it is trained.
    """

    def __init__(self, policy: NextTokenNetwork) -> None:
        super().__init__(auto_prefix=False)
        self.policy = policy
        self.score = ScalarHead(policy.hidden_size)
        self.score.weight.name = "value_head.weight"
        self.score.weight.set_data(Tensor(np.zeros(self.score.weight.shape, np.float32)))
