"""Advantages without a critic: an answer is measured against the other answers to its prompt, or all answers.

Each function takes :class:`AnswerGroups` and the options of its name, and returns either (B,), one number an answer, or
(B, R), one a token. :func:`spread` makes the second of the first. An answer that does not count (no score, or dropped)
is in no mean, no deviation and no baseline, and its advantage is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llmstack.errors import UserError
from llmstack.rl.rewards import last_real_token
from llmstack.rl.whiten import whiten

if TYPE_CHECKING:
    from llmstack.config.grpo import GrpoAdvantageConfig, ReinforcePpConfig


@dataclass(frozen=True)
class AnswerGroups:
    """G answers to each of N prompts, one behind the other: B = N G rows.

    Attributes:
        score_B: (B,) float, what the reward and the shaping of lengths give; anything where it does not count.
        counts_B: (B,) bool, answers that take part in the statistics of their group.
        token_score_BR: (B, R) float, the part of the scores that tokens before the end earn; None: nothing of it.
        kl_cost_BR: (B, R) float, ``beta (logp - ref_logp)`` of each token, to be taken from the reward.
        mask_BR: (B, R) 1 on the real tokens of answers that count.
        group_size: G.
    """

    score_B: np.ndarray
    counts_B: np.ndarray
    token_score_BR: np.ndarray | None
    kl_cost_BR: np.ndarray
    mask_BR: np.ndarray
    group_size: int

    @property
    def counts_NG(self) -> np.ndarray:
        """(N, G) bool, answers that count."""
        return (np.asarray(self.counts_B) != 0).reshape(-1, self.group_size)

    @property
    def score_NG(self) -> np.ndarray:
        """(N, G) float64, scores without KL; 0 for answers that do not count."""
        return self._grouped(np.asarray(self.score_B))

    @property
    def return_NG(self) -> np.ndarray:
        """(N, G) float64, score minus the KL cost of all tokens; 0 for answers that do not count."""
        cost_B = np.where(np.asarray(self.mask_BR) != 0, self.kl_cost_BR, 0.0).sum(axis=1, dtype=np.float64)
        return self._grouped(np.asarray(self.score_B, np.float64) - cost_B)

    def _grouped(self, x_B: np.ndarray) -> np.ndarray:
        return np.where(self.counts_NG, x_B.reshape(-1, self.group_size), 0.0).astype(np.float64)


Advantage = Callable[[AnswerGroups, Any], np.ndarray]
"""An entry of the registry: groups and its own options in, (B,) or (B, R) out."""


def centred(x_NG: np.ndarray, counts_NG: np.ndarray) -> np.ndarray:
    """Distance from the mean of the group.

    Args:
        x_NG: (N, G) float.
        counts_NG: (N, G) bool, which entries count.

    Returns:
        (N, G) float64, exactly 0 where an entry does not count and in groups whose counted entries are all equal.
    """
    number_N1 = np.maximum(counts_NG.sum(axis=1, keepdims=True), 1)
    mean_N1 = np.where(counts_NG, x_NG, 0.0).sum(axis=1, keepdims=True, dtype=np.float64) / number_N1
    return np.where(counts_NG & has_spread(x_NG, counts_NG)[:, None], x_NG - mean_N1, 0.0)


def has_spread(x_NG: np.ndarray, counts_NG: np.ndarray) -> np.ndarray:
    """Whether a group says anything: at least two of its counted entries differ.

    Args:
        x_NG: (N, G) float.
        counts_NG: (N, G) bool, which entries count.

    Returns:
        (N,) bool.
    """
    highest_N = np.where(counts_NG, x_NG, -np.inf).max(axis=1)
    lowest_N = np.where(counts_NG, x_NG, np.inf).min(axis=1)
    return highest_N > lowest_N


def grpo(groups: AnswerGroups, config: GrpoAdvantageConfig) -> np.ndarray:
    """``(score - mean) / (std + epsilon)`` in the group (Shao et al. 2024, DeepSeekMath, section 4.1.2).

    The paper does not say how std is taken; ours divides by n - ddof. A group without spread gives 0.

    Args:
        groups: scores; the KL is not in them (it belongs into the loss here).
        config: ``ddof`` and ``epsilon``.

    Returns:
        (B,) float64.
    """
    counts_NG = groups.counts_NG
    distance_NG = centred(groups.score_NG, counts_NG)
    freedom_N1 = np.maximum(counts_NG.sum(axis=1, keepdims=True) - config.ddof, 1)
    std_N1 = np.sqrt((distance_NG**2).sum(axis=1, keepdims=True) / freedom_N1)
    return (distance_NG / (std_N1 + config.epsilon)).reshape(-1)


def dr_grpo(groups: AnswerGroups, config: object) -> np.ndarray:
    """``return - mean`` in the group (Liu et al. 2025, "Understanding R1-Zero-Like Training", section 3.2).

    Without the division by std, groups of nearly equal scores do not weigh more than others.

    Args:
        groups: scores and KL costs.
        config: has no options.

    Returns:
        (B,) float64.
    """
    return centred(groups.return_NG, groups.counts_NG).reshape(-1)


def rloo(groups: AnswerGroups, config: object) -> np.ndarray:
    """Return minus the mean of the *other* answers (Kool et al. 2019; Ahmadian et al. 2024).

    Equal to n / (n - 1) times the distance from the mean of all n. An answer that is alone in its group gives 0.

    Args:
        groups: scores and KL costs.
        config: has no options.

    Returns:
        (B,) float64.
    """
    number_N1 = groups.counts_NG.sum(axis=1, keepdims=True)
    factor_N1 = number_N1 / np.maximum(number_N1 - 1, 1)
    return (factor_N1 * centred(groups.return_NG, groups.counts_NG)).reshape(-1)


def reinforce_pp(groups: AnswerGroups, config: ReinforcePpConfig) -> np.ndarray:
    """REINFORCE++ (Hu et al. 2025): the return from each token on, whitened over all tokens.

    ``A_t = sum_{i >= t} (s_i - beta KL_i)``, where s_i is the score at the last token (but for what earlier tokens
    earn), then (A - mean) / std over every real token of the iteration. With ``baseline: group`` the mean score of
    the group is taken off first (REINFORCE++-Baseline).

    Args:
        groups: scores and KL costs.
        config: ``baseline``.

    Returns:
        (B, R) float32.
    """
    score_NG = groups.score_NG
    if config.baseline == "group":
        score_NG = centred(score_NG, groups.counts_NG)
    real_BR = np.asarray(groups.mask_BR) != 0
    reward_BR = -np.where(real_BR, groups.kl_cost_BR, 0.0).astype(np.float64)
    last_B, present_B = last_real_token(groups.mask_BR)
    rows = np.flatnonzero(present_B)
    reward_BR[rows, last_B[rows]] += score_NG.reshape(-1)[rows]
    if groups.token_score_BR is not None:
        early_BR = np.where(real_BR, groups.token_score_BR, 0.0).astype(np.float64)
        reward_BR += early_BR
        reward_BR[rows, last_B[rows]] -= early_BR.sum(axis=1)[rows]
    return whiten(np.cumsum(reward_BR[:, ::-1], axis=1)[:, ::-1], groups.mask_BR)


def spread(advantage: np.ndarray, groups: AnswerGroups, *, path: str) -> np.ndarray:
    """One advantage a token, checked.

    Args:
        advantage: what a function of the registry gave, (B,) or (B, R).
        groups: what it was given.
        path: names the function, for messages.

    Returns:
        (B, R) float32, 0 where the groups' mask is 0.

    Raises:
        UserError: another shape, or a number that is not finite at a token that counts.
    """
    real_BR = np.asarray(groups.mask_BR) != 0
    found = np.asarray(advantage)
    if found.shape not in (real_BR.shape, real_BR.shape[:1]):
        raise UserError(
            f"{path}: expected shape {real_BR.shape[:1]} or {real_BR.shape}, got {found.shape}. "
            "Return one number an answer or one a token."
        )
    advantage_BR = np.where(real_BR, found if found.ndim == real_BR.ndim else found[:, None], 0.0)
    if not np.isfinite(advantage_BR).all():
        raise UserError(
            f"{path}: expected finite numbers, got NaN or infinity. Guard divisions in groups without spread."
        )
    return advantage_BR.astype(np.float32)
