"""Rewards for how long an answer is and how much it repeats itself: the formulas, and the rules that apply them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from llmstack.config.reward_rules import LengthShapingConfig, RepetitionConfig
from llmstack.errors import UserError
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import RewardBatch

_WORD = re.compile(r"\w+")


def overlong_penalty(length_B: np.ndarray, *, max_length: int, cushion: int) -> np.ndarray:
    """Soft overlong punishment: nothing, then a line from 0 to -1 over the last ``cushion`` units, then -1.

    Yu et al. 2025 (DAPO), equation 13, with L_max = ``max_length`` and L_cache = ``cushion``.

    Args:
        length_B: (B,) int, length of each answer.
        max_length: from this length on the penalty is -1.
        cushion: width of the line, from 1 to ``max_length``.

    Returns:
        (B,) float64 in [-1, 0].
    """
    over_B = np.asarray(length_B, np.float64) - (max_length - cushion)
    return -np.clip(over_B / cushion, 0.0, 1.0)


def target_penalty(length_B: np.ndarray, *, target: int, slack: int) -> np.ndarray:
    """``-min(1, max(0, |n - target| - slack) / target)``: the distance from a wanted length, relative to it.

    The length term of Aggarwal & Welleck 2025 (L1, section 3), with alpha = 1/target; ours has a slack in which nothing
    is lost, and is bounded.

    Args:
        length_B: (B,) int, length n of each answer.
        target: wanted length.
        slack: distance that costs nothing.

    Returns:
        (B,) float64 in [-1, 0].
    """
    distance_B = np.abs(np.asarray(length_B, np.float64) - target)
    return -np.clip((distance_B - slack) / target, 0.0, 1.0)


def repeated_ratio(words: Sequence[str], *, size: int) -> float:
    """Share of n-grams that have occurred before: ``1 - distinct n-grams / n-grams``.

    1 - distinct-n of Li et al. 2016 ("A Diversity-Promoting Objective Function"), section 5.

    Args:
        words: an answer's words.
        size: words n of an n-gram.

    Returns:
        From 0 (none twice) to below 1; 0 for an answer without an n-gram.
    """
    grams = [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


class LengthShaping(TextReward[LengthShapingConfig]):
    """A penalty in [-1, 0] for an answer's length; made to be one part of a combined reward.

    Args:
        config: which formula, and its lengths.
        where: where it stands in the recipe.
    """

    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: the answers.

        Raises:
            UserError: tokens are to be counted and the batch does not say how many there are.
        """
        config, lengths = self.config, np.array(self._lengths(batch))
        if config.mode == "overlong" and config.max_length is not None and config.cushion is not None:
            values = overlong_penalty(lengths, max_length=config.max_length, cushion=config.cushion)
        else:
            values = target_penalty(lengths, target=config.target or 1, slack=config.slack)
        return list(values.tolist())

    def _lengths(self, batch: RewardBatch) -> list[int]:
        if self.config.unit == "characters":
            return [len(text) for text in batch.responses]
        if self.config.unit == "words":
            return [len(text.split()) for text in batch.responses]
        if batch.num_tokens is None:
            raise UserError(
                f"{self.where}.unit: expected answers with their number of tokens, got texts alone. "
                "Set `unit: words`, or give RewardBatch num_tokens."
            )
        return batch.num_tokens


class Repetition(TextReward[RepetitionConfig]):
    """Minus the share of an answer's n-grams that occurred in it before; made to be one part of a combined reward.

    Args:
        config: the size of an n-gram.
        where: where it stands in the recipe.
    """

    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: the answers.
        """
        return [-repeated_ratio(_WORD.findall(text.casefold()), size=self.config.ngram) for text in batch.responses]
