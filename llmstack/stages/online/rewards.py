"""Where an answer's score comes from: a trained reward model, or any registered function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from mindspore import Tensor

from llmstack.config.rewards import ModelRewardConfig
from llmstack.data.same_tokens import require_same_tokens
from llmstack.data.tokenizer import Tokenizer
from llmstack.models.score_statistics import read_statistics
from llmstack.registry import REWARDS
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import FirstScores, RewardFunction, Scores, none_scored, score_answers
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


class StageReward(ABC):
    """A reward that is told where it stands in the recipe, for its messages.

    Args:
        config: its options.
        stage: the stage that asks; has models and tokenizer.
        path: where the options stand in the recipe.
    """

    @abstractmethod
    def __init__(self, config: Any, stage: Stage, path: str) -> None: ...

    @abstractmethod
    def score(self, rollout: Rollout) -> Scores:
        """One score an answer.

        Args:
            rollout: prompts and answers.
        """


class ModelReward(StageReward):
    """The value of a reward model at an answer's last token.

    Args:
        config: names the reward stage or model folder.
        stage: the stage that asks; loads models.
        path: where the options stand in the recipe.

    Raises:
        UserError: the model has another tokenizer, or no statistics of its scores when they are to be normalised.
    """

    def __init__(self, config: ModelRewardConfig, stage: Stage, path: str) -> None:
        folder = stage.context.inputs[config.from_]
        if (folder / "tokenizer.json").is_file():
            theirs = Tokenizer.load(folder)
            require_same_tokens(
                stage.context.tokenizer, theirs, where=f"{path}.from", whose=f"the reward model {folder}"
            )
        self._statistics = read_statistics(folder, where=f"{path}.normalise") if config.normalise else None
        self._scorer = LastScores(stage.scalar_model(config.from_, "reward"))

    def score(self, rollout: Rollout) -> Scores:
        """One score an answer.

        Args:
            rollout: prompts and answers.
        """
        inputs = (*rollout.inputs().values(), rollout.last_B)
        score_B = self._scorer(*(Tensor(array) for array in inputs)).asnumpy()
        if self._statistics is not None:
            score_B = self._statistics.normalise(score_B)
        return Scores(score_B=score_B, scored_B=np.isfinite(score_B))


class FunctionReward:
    """A plain function of prompts, answers and reference answers as text.

    Args:
        function: see ``llmstack.rl.rewards_api``.
        path: where it stands in the recipe, for messages.
    """

    def __init__(self, function: RewardFunction, path: str) -> None:
        self._function, self._path, self._first = function, path, FirstScores()

    def score(self, rollout: Rollout) -> Scores:
        """One score an answer.

        Args:
            rollout: prompts and answers.

        Raises:
            UserError: the function failed, returned something else than scores, or scores nothing.
        """
        scores = score_answers(self._function, rollout.texts, path=self._path)
        self._first.note(scores.scored_B, lambda: none_scored(rollout.texts, self._path))
        if isinstance(self._function, TextReward):
            return replace(scores, metrics={f"reward/{key}": n for key, n in self._function.metrics().items()})
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
    return entry(config, stage, path) if issubclass(entry, StageReward) else entry(config, stage)
