"""Which answers an iteration learns from: a batch of prompts as it comes, or only groups that say something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from llmstack.rl.advantages import has_spread
from llmstack.rl.rewards_api import Scores
from llmstack.stages.online.rollout import Rollout, join

Draw = Callable[[int], tuple[Rollout, Scores]]
"""Answers to the next prompts with their scores; the argument counts the draws of an iteration from 0."""


@dataclass(frozen=True)
class Gathered:
    """The answers of an iteration.

    Attributes:
        drawn: everything that was sampled.
        scores: of all of it.
        rows_B: int, rows of ``drawn`` that fill the iteration's batch, group by group.
        live_B: bool, which of them take part; the others only fill the batch up.
        metrics: counters of dynamic sampling.
    """

    drawn: Rollout
    scores: Scores
    rows_B: np.ndarray
    live_B: np.ndarray
    metrics: dict[str, float]


def gather(draw: Draw, *, group_size: int, max_refills: int | None) -> Gathered:
    """Draw answers once, or (Yu et al. 2025, DAPO, section 3.2) until there is a batch of groups with spread.

    A group without spread (all its scored answers score the same, or fewer than two are scored) is dropped and the
    prompts of a further batch are asked, ``max_refills`` times at most. Groups beyond the batch are left aside in the
    order they were drawn. What is missing in the end is filled up with dropped groups that take no part.

    Args:
        draw: gives answers to the next batch of prompts.
        group_size: answers G to each prompt.
        max_refills: further batches; None takes the first batch as it is.

    Returns:
        The answers.
    """
    if max_refills is None:
        rollout, scores = draw(0)
        num_rows = len(rollout.mask_BR)
        return Gathered(rollout, scores, np.arange(num_rows), np.ones(num_rows, bool), {})
    rollouts, scored, spread = [], [], []
    for number in range(max_refills + 1):
        rollout, scores = draw(number)
        rollouts.append(rollout)
        scored.append(scores)
        by_group = (-1, group_size)
        spread.append(has_spread(scores.score_B.reshape(by_group), scores.scored_B.reshape(by_group)))
        if sum(int(some.sum()) for some in spread) >= len(spread[0]):
            break
    return _chosen(rollouts, scored, spread, group_size)


def _chosen(rollouts: list[Rollout], scored: list[Scores], spread: list[np.ndarray], group_size: int) -> Gathered:
    wanted, has = len(spread[0]), np.concatenate(spread)
    good, flat = np.flatnonzero(has), np.flatnonzero(~has)
    groups = np.concatenate([good, flat])[:wanted]
    live = np.arange(wanted) < len(good)
    metrics = {
        "groups_dropped": float(len(flat)),
        "groups_left_aside": float(max(len(good) - wanted, 0)),
        "groups_trained": float(live.sum()),
        "refills": float(len(rollouts) - 1),
    }
    rows_B = (groups[:, None] * group_size + np.arange(group_size)).reshape(-1)
    return Gathered(join(rollouts), _joined(scored), rows_B, np.repeat(live, group_size), metrics)


def _joined(scored: list[Scores]) -> Scores:
    """The scores of several draws by one reward; its own numbers are averaged."""
    early = [scores.token_score_BR for scores in scored if scores.token_score_BR is not None]
    return Scores(
        score_B=np.concatenate([scores.score_B for scores in scored]),
        scored_B=np.concatenate([scores.scored_B for scores in scored]),
        token_score_BR=np.concatenate(early) if early else None,
        metrics={name: float(np.mean([scores.metrics[name] for scores in scored])) for name in scored[0].metrics},
    )
