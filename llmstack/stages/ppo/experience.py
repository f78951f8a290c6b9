"""From a rollout to what PPO learns from: log-probabilities, values, rewards, advantages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmstack.config.ppo import PpoConfig
from llmstack.rl.gae import gae
from llmstack.rl.importance import effective_sample_ratio, importance_weights
from llmstack.rl.kl import sequence_kl, token_kl
from llmstack.rl.ppo_stats import answer_stats, explained_variance
from llmstack.rl.rewards import end_answers, shaped_scores, token_rewards
from llmstack.rl.rewards_api import Scores
from llmstack.rl.whiten import masked_mean, whiten
from llmstack.stages.online.rollout import Rollout


@dataclass(frozen=True)
class Readings:
    """What the models say of a rollout, all at the rollout's temperature and in the graphs that train.

    Attributes:
        logp_BR: float32, log-probability of each answer token under the policy that sampled it.
        ref_logp_BR: float32, the same under the reference.
        entropy_BR: float32, entropy of the policy at each token.
        value_BS: float32 (B, R + 1), the critic before each token, and after the last place.
        scores: of the answers.
    """

    logp_BR: np.ndarray
    ref_logp_BR: np.ndarray
    entropy_BR: np.ndarray
    value_BS: np.ndarray
    scores: Scores


@dataclass(frozen=True)
class Experience:
    """What the losses need for each answer token.

    Attributes:
        old_logp_BR: float32.
        ref_logp_BR: float32.
        old_value_BR: float32.
        advantage_BR: float32.
        return_BR: float32.
        mask_BR: float32, 1 on real tokens of answers that have a loss.
        kl: mean KL(policy || reference) of an answer, nats.
        metrics: what the iteration reports.
    """

    old_logp_BR: np.ndarray
    ref_logp_BR: np.ndarray
    old_value_BR: np.ndarray
    advantage_BR: np.ndarray
    return_BR: np.ndarray
    mask_BR: np.ndarray
    kl: float
    metrics: dict[str, float]


def experience_of(
    rollout: Rollout, readings: Readings, config: PpoConfig, *, beta: float, score_std: float = 1.0
) -> Experience:
    """Rewards with KL, generalised advantages, whitening. Unscored answers take no part.

    Args:
        rollout: prompts and answers.
        readings: log-probabilities, values and scores.
        config: the stage's options.
        beta: present weight of the KL in the reward.
        score_std: what scores are divided by.

    Returns:
        What the losses need, and the iteration's metrics.
    """
    counts_B, learns_B = _parts(rollout, readings.scores, config)
    counts_BR = rollout.mask_BR * counts_B[:, None]
    reward_BR, bootstrap_B = _rewards(rollout, readings, config, counts_BR, beta=beta, score_std=score_std)
    if config.whiten_rewards:
        reward_BR = whiten(reward_BR, counts_BR, shift_mean=False)
    old_value_BR = readings.value_BS[:, :-1]
    advantage_BR, return_BR = gae(reward_BR, old_value_BR, counts_BR, bootstrap_B, gamma=config.gamma, lam=config.lam)
    foreseen = explained_variance(old_value_BR, return_BR, counts_BR)
    if config.whiten_advantages:
        advantage_BR = whiten(advantage_BR, counts_BR)
    weights_BR = importance_weights(readings.logp_BR, rollout.sampled_logp_BR, rollout.mask_BR, cap=None)
    if config.importance_cap is not None:
        advantage_BR = advantage_BR * np.minimum(weights_BR, np.float32(config.importance_cap))
    kl = float(sequence_kl(readings.logp_BR, readings.ref_logp_BR, rollout.mask_BR).mean())
    mismatch = np.abs(readings.logp_BR - rollout.sampled_logp_BR) * rollout.mask_BR
    metrics = answer_stats(readings.scores, rollout.finished_B, rollout.mask_BR) | {
        "kl_policy_ref": kl,
        "token_kl_policy_ref": token_kl(readings.logp_BR, readings.ref_logp_BR, rollout.mask_BR),
        "entropy": masked_mean(readings.entropy_BR, rollout.mask_BR),
        "explained_variance": foreseen,
        "beta": beta,
        "reward_mean": float(reward_BR.sum(axis=1).mean()),
        "sampler_mismatch": float(mismatch.max()),
        "importance_ess_ratio": effective_sample_ratio(weights_BR, rollout.mask_BR),
        "masked_ratio": 1.0 - float(learns_B.mean()),
    }
    if config.scores.normalise == "running":
        metrics["score_scale"] = score_std
    learns_BR = rollout.mask_BR * learns_B[:, None]
    return Experience(
        readings.logp_BR, readings.ref_logp_BR, old_value_BR, advantage_BR, return_BR, learns_BR, kl, metrics
    )


def _parts(rollout: Rollout, scores: Scores, config: PpoConfig) -> tuple[np.ndarray, np.ndarray]:
    """(B,) bool each: which answers are in the statistics, and which of these have a loss."""
    counts_B = scores.scored_B
    if config.truncated == "drop":
        counts_B = counts_B & rollout.finished_B
    return counts_B, counts_B & rollout.finished_B if config.truncated == "mask" else counts_B


def _rewards(
    rollout: Rollout, readings: Readings, config: PpoConfig, mask_BR: np.ndarray, *, beta: float, score_std: float
) -> tuple[np.ndarray, np.ndarray]:
    """Rewards of tokens (B, R), and the value (B,) that stands in for what follows a cut-off answer."""
    scores, lengths_B = readings.scores, rollout.mask_BR.sum(axis=1).astype(np.int64)
    final_B = shaped_scores(scores.final_score_B, std=score_std, clip=config.scores.clip)
    score_B, bootstrap_B = end_answers(
        final_B,
        rollout.finished_B,
        next_value_B=np.take_along_axis(readings.value_BS, lengths_B[:, None], axis=1)[:, 0],
        missing_eos_score=config.missing_eos_score,
    )
    reward_BR = token_rewards(readings.logp_BR, readings.ref_logp_BR, mask_BR, score_B, beta=beta)
    if scores.token_score_BR is not None:
        reward_BR = reward_BR + mask_BR * scores.token_score_BR / np.float32(score_std)
    return reward_BR, bootstrap_B
