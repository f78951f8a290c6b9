"""How one iteration's rollouts are dealt into minibatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Minibatch:
    """Rows of the rollout that make one optimizer step.

    Attributes:
        rows_M: (M,) int64, row numbers; the same M for every minibatch, so that one graph serves them all.
        weight_M: (M,) float32, 1 for a real row and 0 for a filler that only completes the shape.
    """

    rows_M: np.ndarray
    weight_M: np.ndarray


def minibatches(num_rows: int, num_minibatches: int, *, seed: int, iteration: int, epoch: int) -> list[Minibatch]:
    """Deal a fresh permutation of all rows into minibatches; nothing is dropped and nothing comes twice.

    When the rows do not divide evenly, the first minibatches hold one row more and the others repeat one of their rows
    with weight 0. The result depends on the arguments alone, so a resumed run deals the same.

    Args:
        num_rows: rows B of the rollout.
        num_minibatches: optimizer steps of one epoch, at most ``num_rows``.
        seed: the run's seed.
        iteration: number of the PPO iteration.
        epoch: number of the pass over the rollout.

    Returns:
        ``num_minibatches`` minibatches of ``M = ceil(num_rows / num_minibatches)`` rows.

    Raises:
        ValueError: more minibatches than rows, or none.
    """
    if not 0 < num_minibatches <= num_rows:
        raise ValueError(f"minibatches: expected 1 to {num_rows} (the rows), got {num_minibatches}. Choose a divisor.")
    order = np.random.default_rng([seed, iteration, epoch]).permutation(num_rows)
    size = -(-num_rows // num_minibatches)
    dealt = []
    for real in np.array_split(order, num_minibatches):
        fillers = np.full(size - real.size, real[0])
        weight = np.concatenate([np.ones(real.size, np.float32), np.zeros(fillers.size, np.float32)])
        dealt.append(Minibatch(rows_M=np.concatenate([real, fillers]), weight_M=weight))
    return dealt
