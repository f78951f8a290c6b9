"""From answers and scores to what the policy learns from: advantages and weights of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmstack.config.grpo import GrpoConfig
from llmstack.registry import ADVANTAGES, AGGREGATIONS
from llmstack.rewards.shaping import overlong_penalty
from llmstack.rl.advantages import AnswerGroups, has_spread, spread
from llmstack.rl.importance import effective_sample_ratio, importance_weights
from llmstack.rl.kl import k1, sequence_kl, token_kl
from llmstack.rl.ppo_stats import answer_stats
from llmstack.rl.rewards_api import Scores
from llmstack.rl.whiten import masked_mean
from llmstack.stages.grpo.gathering import Gathered
from llmstack.stages.online.rollout import Rollout


@dataclass(frozen=True)
class Readings:
    """What the models say of the answers learnt from, at the rollout's temperature and in the graphs that train.

    Attributes:
        logp_BR: float32, log-probability of each answer token under the policy that sampled it.
        ref_logp_BR: float32, the same under the reference.
        entropy_BR: float32, entropy of the policy at each token.
    """

    logp_BR: np.ndarray
    ref_logp_BR: np.ndarray
    entropy_BR: np.ndarray


@dataclass(frozen=True)
class Experience:
    """What the loss needs.

    Attributes:
        advantage_BR: float32, with the importance weights when they are asked for.
        weight_BR: float32, weight of each token's loss; 0 where it does not count.
        count_B: float64, what each row adds to what the loss is divided by.
        kl: mean KL(policy || reference) of an answer, nats.
        metrics: what the iteration reports.
    """

    advantage_BR: np.ndarray
    weight_BR: np.ndarray
    count_B: np.ndarray
    kl: float
    metrics: dict[str, float]


def experience_of(
    gathered: Gathered, rollout: Rollout, readings: Readings, config: GrpoConfig, *, beta: float
) -> Experience:
    """Shape the scores, compare each answer with its group, weigh the tokens.

    Args:
        gathered: everything drawn.
        rollout: the rows of it that fill the batch.
        readings: log-probabilities of these rows.
        config: the stage's options.
        beta: present weight of the KL in the reward.

    Returns:
        What the loss needs, and the iteration's metrics.
    """
    scores, finished_B = gathered.scores, rollout.finished_B
    counts_B = scores.scored_B[gathered.rows_B] & gathered.live_B
    if config.truncated == "drop":
        counts_B = counts_B & finished_B
    learns_B = counts_B if config.truncated == "keep" else counts_B & finished_B
    groups = AnswerGroups(
        score_B=scores.score_B[gathered.rows_B].astype(np.float64) + _length_cost(rollout, config),
        counts_B=counts_B,
        token_score_BR=None if scores.token_score_BR is None else scores.token_score_BR[gathered.rows_B],
        kl_cost_BR=beta * k1(readings.logp_BR, readings.ref_logp_BR, rollout.mask_BR),
        mask_BR=rollout.mask_BR * counts_B[:, None],
        group_size=config.samples_per_prompt,
    )
    kind = config.advantage.kind
    advantage_BR = spread(ADVANTAGES.get(kind)(groups, config.advantage), groups, path=f"advantage {kind}")
    aggregation = AGGREGATIONS.get(config.aggregation)(rollout.mask_BR * learns_B[:, None])
    weights_BR = importance_weights(readings.logp_BR, rollout.sampled_logp_BR, rollout.mask_BR, cap=None)
    kl = float(sequence_kl(readings.logp_BR, readings.ref_logp_BR, rollout.mask_BR).mean())
    metrics = (
        gathered.metrics
        | dict(scores.metrics)
        | answer_stats(scores, gathered.drawn.finished_B, gathered.drawn.mask_BR)
        | _group_metrics(scores, config.samples_per_prompt)
        | _token_metrics(rollout, readings, weights_BR)
        | _advantage_metrics(advantage_BR, aggregation.weight_BR)
        | {"kl_policy_ref": kl, "beta": beta, "masked_ratio": 1.0 - float(learns_B.mean())}
    )
    if config.importance_cap is not None:
        advantage_BR = advantage_BR * np.minimum(weights_BR, np.float32(config.importance_cap))
    return Experience(advantage_BR, aggregation.weight_BR, aggregation.count_B, kl, metrics)


def _length_cost(rollout: Rollout, config: GrpoConfig) -> np.ndarray:
    length_B = rollout.mask_BR.sum(axis=1)
    if config.overlong is None:
        return np.zeros(len(length_B))
    cost_B = overlong_penalty(length_B, max_length=config.response_len, cushion=config.overlong.buffer)
    return config.overlong.penalty * cost_B


def _group_metrics(scores: Scores, group_size: int) -> dict[str, float]:
    """Spread within the groups of everything that was drawn."""
    score_NG = scores.score_B.reshape(-1, group_size).astype(np.float64)
    scored_NG = scores.scored_B.reshape(-1, group_size)
    stds = [score[scored].std() for score, scored in zip(score_NG, scored_NG, strict=True) if scored.any()]
    return {
        "group_std_mean": float(np.mean(stds)) if stds else 0.0,
        "zero_spread_ratio": 1.0 - float(has_spread(score_NG, scored_NG).mean()),
    }


def _token_metrics(rollout: Rollout, readings: Readings, weights_BR: np.ndarray) -> dict[str, float]:
    mask_BR = rollout.mask_BR
    mismatch_BR = np.abs(readings.logp_BR - rollout.sampled_logp_BR) * mask_BR
    return {
        "token_kl_policy_ref": token_kl(readings.logp_BR, readings.ref_logp_BR, mask_BR),
        "entropy": masked_mean(readings.entropy_BR, mask_BR),
        "sampler_mismatch": float(mismatch_BR.max()),
        "importance_ess_ratio": effective_sample_ratio(weights_BR, mask_BR),
    }


def _advantage_metrics(advantage_BR: np.ndarray, weight_BR: np.ndarray) -> dict[str, float]:
    real = advantage_BR[weight_BR > 0].astype(np.float64)
    if not real.size:
        return {"advantage_min": 0.0, "advantage_max": 0.0, "advantage_std": 0.0}
    return {
        "advantage_min": float(real.min()),
        "advantage_max": float(real.max()),
        "advantage_std": float(real.std()),
    }
