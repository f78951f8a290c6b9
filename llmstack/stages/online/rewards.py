"""Where an answer's score comes from: a trained reward model, or any registered function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from mindspore import Tensor

from llmstack.config.rewards import ModelRewardConfig
from llmstack.registry import REWARDS
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import RewardFunction, Scores, score_answers
from llmstack.stages.base import Stage
from llmstack.stages.online.rollout import Rollout
from llmstack.stages.scoring import LastScores


class Reward(Protocol):
    """Scores the answers of a rollout."""

    def score(self, rollout: Rollout) -> Scores:
        """One score an answer.

        Args:
            rollout: prompts and answers.
        """


class ModelReward:
    """The value of a reward model at an answer's last token.

    Args:
        config: names the reward stage or model folder.
        stage: the stage that asks; loads models.
    """

    def __init__(self, config: ModelRewardConfig, stage: Stage) -> None:
        self._scorer = LastScores(stage.scalar_model(config.from_, "reward"))

    def score(self, rollout: Rollout) -> Scores:
        """One score an answer.

        Args:
            rollout: prompts and answers.
        """
        inputs = (*rollout.inputs().values(), rollout.last_B)
        score_B = self._scorer(*(Tensor(array) for array in inputs)).asnumpy()
        return Scores(score_B=score_B, scored_B=np.isfinite(score_B))


class FunctionReward:
    """A plain function of prompts, answers and reference answers as text.

    Args:
        function: see ``llmstack.rl.rewards_api``.
        path: where it stands in the recipe, for messages.
    """

    def __init__(self, function: RewardFunction, path: str) -> None:
        self._function, self._path = function, path

    def score(self, rollout: Rollout) -> Scores:
        """One score an answer.

        Args:
            rollout: prompts and answers.
        """
        scores = score_answers(self._function, rollout.texts, path=self._path)
        if isinstance(self._function, TextReward):
            return replace(scores, metrics=self._function.metrics())
        return scores


def make_reward(config: Any, stage: Stage, path: str) -> Reward:
    """The reward a recipe names.

    Args:
        config: a reward's options; ``kind`` is its registered name.
        stage: the stage that asks.
        path: where the options stand in the recipe.
    """
    entry = REWARDS.get(config.kind)
    if not isinstance(entry, type):
        return FunctionReward(entry, path)
    if issubclass(entry, TextReward):
        return FunctionReward(entry(config, where=path), path)
    return entry(config, stage)
