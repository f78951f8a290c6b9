"""What is reported of a batch, or an evaluation, of compared or judged answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Sums(NamedTuple):
    """Sums over pairs or answers, in the order of :class:`llmstack.stages.preference.objective.PreferenceObjective`.

    Attributes:
        loss: the loss of all pairs (or single answers).
        right: how many are the right way round.
        reward_good: implicit rewards of chosen or good answers.
        reward_bad: of rejected or bad ones.
        logp_good: log-probabilities of chosen or good answers, in nats.
        logp_bad: of rejected or bad ones.
        drift: log-ratios of all answers to the reference.
    """

    loss: float
    right: float
    reward_good: float
    reward_bad: float
    logp_good: float
    logp_bad: float
    drift: float


def measures(sums: Sums, *, count: float, num_good: float, num_bad: float, has_reference: bool) -> dict[str, float]:
    """Means of the sums; NaN over nothing.

    Args:
        sums: over all samples.
        count: pairs, or single answers.
        num_good: chosen or good answers.
        num_bad: rejected or bad ones.
        has_reference: whether there is a reference to drift from.

    Returns:
        ``loss, accuracy, margin, reward_chosen, reward_rejected, logp_chosen, logp_rejected`` and ``drift``.
    """
    found = {
        "loss": sums.loss / count,
        "accuracy": sums.right / count,
        "reward_chosen": _mean(sums.reward_good, num_good),
        "reward_rejected": _mean(sums.reward_bad, num_bad),
        "logp_chosen": _mean(sums.logp_good, num_good),
        "logp_rejected": _mean(sums.logp_bad, num_bad),
    }
    found["margin"] = found["reward_chosen"] - found["reward_rejected"]
    return found | ({"drift": sums.drift / (num_good + num_bad)} if has_reference else {})


def _mean(total: float, count: float) -> float:
    return total / count if count else float("nan")


def baseline_of(log_ratio_N: np.ndarray) -> float:
    """KTO's z0 = max(0, mean log-ratio of mismatched answers).

    Ethayarajh et al. 2024 (KTO), section 4.1: an estimate of the KL of the policy to the reference from prompts with
    the answers to other prompts, kept from going below 0.

    Args:
        log_ratio_N: (N,) log-probability of each mismatched answer less the reference's, in nats.

    Returns:
        z0 in nats; 0 without answers.
    """
    return max(0.0, float(log_ratio_N.mean())) if len(log_ratio_N) else 0.0
