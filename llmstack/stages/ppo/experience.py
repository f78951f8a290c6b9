"""From a rollout to what PPO learns from: log-probabilities, values, rewards, advantages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmstack.config.ppo import PpoConfig
from llmstack.rl.gae import gae
from llmstack.rl.kl import sequence_kl, token_kl
from llmstack.rl.ppo_stats import answer_stats, explained_variance
from llmstack.rl.rewards import end_answers, token_rewards
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
        mask_BR: float32, 1 on real tokens of scored answers.
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


def experience_of(rollout: Rollout, readings: Readings, config: PpoConfig, *, beta: float) -> Experience:
    """Rewards with KL, generalised advantages, whitening. Unscored answers take no part.

    Args:
        rollout: prompts and answers.
        readings: log-probabilities, values and scores.
        config: the stage's options.
        beta: present weight of the KL in the reward.

    Returns:
        What the losses need, and the iteration's metrics.
    """
    scores = readings.scores
    mask_BR = rollout.mask_BR * scores.scored_B[:, None]
    lengths_B = rollout.mask_BR.sum(axis=1).astype(np.int64)
    next_value_B = np.take_along_axis(readings.value_BS, lengths_B[:, None], axis=1)[:, 0]
    score_B, bootstrap_B = end_answers(
        scores.score_B, rollout.finished_B, next_value_B=next_value_B, missing_eos_score=config.missing_eos_score
    )
    old_value_BR = readings.value_BS[:, :-1]
    reward_BR = token_rewards(readings.logp_BR, readings.ref_logp_BR, mask_BR, score_B, beta=beta)
    advantage_BR, return_BR = gae(reward_BR, old_value_BR, mask_BR, bootstrap_B, gamma=config.gamma, lam=config.lam)
    foreseen = explained_variance(old_value_BR, return_BR, mask_BR)
    if config.whiten_advantages:
        advantage_BR = whiten(advantage_BR, mask_BR)
    kl = float(sequence_kl(readings.logp_BR, readings.ref_logp_BR, rollout.mask_BR).mean())
    mismatch = np.abs(readings.logp_BR - rollout.sampled_logp_BR) * rollout.mask_BR
    metrics = answer_stats(scores, rollout.finished_B, rollout.mask_BR) | {
        "kl_policy_ref": kl,
        "token_kl_policy_ref": token_kl(readings.logp_BR, readings.ref_logp_BR, rollout.mask_BR),
        "entropy": masked_mean(readings.entropy_BR, rollout.mask_BR),
        "explained_variance": foreseen,
        "beta": beta,
        "reward_mean": float(reward_BR.sum(axis=1).mean()),
        "sampler_mismatch": float(mismatch.max()),
    }
    return Experience(
        readings.logp_BR, readings.ref_logp_BR, old_value_BR, advantage_BR, return_BR, mask_BR, kl, metrics
    )
