"""A weighted sum of several rewards."""

from __future__ import annotations

import numpy as np

from llmstack.config.rewards import CombineConfig, RewardPartConfig
from llmstack.errors import UserError
from llmstack.rl.combine import Shares, part_factors
from llmstack.rl.rewards_api import FirstScores, Scores, none_scored
from llmstack.rl.whiten import masked_mean
from llmstack.stages.base import Stage
from llmstack.stages.online.rewards import StageReward, make_reward
from llmstack.stages.online.rollout import Rollout


class CombinedReward(StageReward):
    """The parts' scores, clipped and weighed (:func:`llmstack.rl.combine.part_factors`).

    Args:
        config: the parts.
        stage: the stage that asks.
        path: where the options stand in the recipe.
    """

    def __init__(self, config: CombineConfig, stage: Stage, path: str) -> None:
        self._parts, self._path, self._first = config.of, path, FirstScores()
        self._rewards = {
            name: make_reward(part.reward, stage, f"{path}.of.{name}.reward") for name, part in config.of.items()
        }
        parts = config.of.values()
        self._shares = Shares(
            weight_P=np.array([part.weight for part in parts]), required_P=np.array([part.required for part in parts])
        )

    def score(self, rollout: Rollout) -> Scores:
        """One score an answer; the mean of each part is among the metrics, before clipping.

        Args:
            rollout: prompts and answers.

        Raises:
            UserError: no answer has the scores it needs, or a part that is clipped scores steps.
        """
        scores = {name: reward.score(rollout) for name, reward in self._rewards.items()}
        factor_PB, scored_B = part_factors(self._shares, np.array([part.scored_B for part in scores.values()]))
        missing = ", ".join(f"{name} {found.num_unscored}" for name, found in scores.items())
        complaint = f"{none_scored(rollout.texts, self._path)} Unscored by part: {missing}."
        self._first.note(scored_B, lambda: complaint)
        total_B, token_BR = np.zeros(len(scored_B)), np.zeros(rollout.mask_BR.shape)
        for (name, found), factor_B in zip(scores.items(), factor_PB, strict=True):
            total_B += factor_B * self._clipped(name, found)
            if found.token_score_BR is not None:
                token_BR += factor_B[:, None] * found.token_score_BR
        has_steps = any(found.token_score_BR is not None for found in scores.values())
        return Scores(
            score_B=total_B.astype(np.float32),
            scored_B=scored_B,
            token_score_BR=token_BR.astype(np.float32) if has_steps else None,
            metrics={key: value for name, found in scores.items() for key, value in _metrics(name, found).items()},
        )

    def _clipped(self, name: str, found: Scores) -> np.ndarray:
        part: RewardPartConfig = self._parts[name]
        if part.clip is None:
            return found.score_B
        if found.token_score_BR is not None:
            raise UserError(
                f"{self._path}.of.{name}.clip: expected null because the part scores steps, got {list(part.clip)}. "
                "Let its function keep to the bounds."
            )
        return np.clip(found.score_B, *part.clip)


def _metrics(name: str, found: Scores) -> dict[str, float]:
    own = {
        f"reward/{name}": masked_mean(found.score_B, found.scored_B),
        f"reward/{name}_unscored_ratio": found.num_unscored / len(found.score_B),
    }
    return own | {f"reward/{name}/{key.removeprefix('reward/')}": value for key, value in found.metrics.items()}
