"""Optimizer steps on minibatches of one rollout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmstack.config.online import RolloutConfig
from llmstack.data.row_tables import Batch
from llmstack.losses.ppo import RATIO_EDGES
from llmstack.optim.updater import UpdateReport
from llmstack.rl.minibatch import Minibatch, minibatches
from llmstack.stages.learner import Learner
from llmstack.stages.online.rollout import Rollout

_BELOW = tuple(f"ratio_below_{edge:g}" for edge in RATIO_EDGES)
POLICY_METRICS = ("clip_fraction", "kl_old_new", "entropy_new", "ratio_mean", "off_ratio_mean", *_BELOW)
"""What ``PolicyObjective`` measures besides its loss."""


@dataclass(frozen=True)
class Learned:
    """What an iteration's updates report.

    Attributes:
        metrics: means over the minibatches.
        skipped: whether any update had a non-finite gradient.
    """

    metrics: dict[str, float]
    skipped: bool


class Seen:
    """Collects what the updates of an iteration report."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = defaultdict(list)
        self._skipped = False

    def note(self, name: str, report: UpdateReport, metrics: Sequence[str]) -> None:
        """Add an update.

        Args:
            name: of what was updated; its loss is ``<name>_loss``.
            report: what the update did.
            metrics: names of its metrics.
        """
        values = {f"{name}_loss": report.loss, f"{name}_grad_norm": report.grad_norm}
        for metric, value in (values | dict(zip(metrics, report.metrics, strict=True))).items():
            self._values[metric].append(value)
        self._skipped = self._skipped or not report.finite

    def last(self, metric: str) -> float:
        """The newest value of a metric; 0 when there is none.

        Args:
            metric: its name.
        """
        return self._values[metric][-1] if self._values[metric] else 0.0

    def count(self, metric: str) -> int:
        """How many values a metric has.

        Args:
            metric: its name.
        """
        return len(self._values[metric])

    def learned(self) -> Learned:
        """Means of all metrics.

        The deviation of the ratio stands in the place of its mean square distance from 1, and its histogram (the
        share of tokens between two edges, ``ratio_hist/<from>_<to>``) in the place of the shares below each edge.
        """
        metrics = {name: float(np.mean(values)) for name, values in self._values.items() if values}
        if "off_ratio_mean" in metrics:
            variance = metrics.pop("off_ratio_mean") - (metrics["ratio_mean"] - 1.0) ** 2
            metrics["ratio_std"] = float(np.sqrt(max(variance, 0.0)))
            below = [0.0, *(metrics.pop(name) for name in _BELOW), 1.0]
            edges = [f"{edge:g}" for edge in (0.0, *RATIO_EDGES)] + ["inf"]
            for number, share in enumerate(np.diff(below)):
                metrics[f"ratio_hist/{edges[number]}_{edges[number + 1]}"] = max(float(share), 0.0)
        return Learned(metrics, self._skipped)


def deal(config: RolloutConfig, num_rows: int, *, seed: int, iteration: int) -> list[Minibatch]:
    """The minibatches of all epochs of an iteration, in order.

    Args:
        config: says how many.
        num_rows: rows of the rollout.
        seed: of the order.
        iteration: its number.
    """
    return [
        minibatch
        for epoch in range(config.epochs)
        for minibatch in minibatches(num_rows, config.minibatches, seed=seed, iteration=iteration, epoch=epoch)
    ]


def policy_columns(
    rollout: Rollout,
    *,
    temperature: float,
    old_logp_BR: np.ndarray,
    ref_logp_BR: np.ndarray,
    advantage_BR: np.ndarray,
    weight_BR: np.ndarray,
) -> dict[str, np.ndarray]:
    """The inputs of ``PolicyObjective`` behind those of the model, in its order.

    Args:
        rollout: prompts and answers.
        temperature: they were sampled at.
        old_logp_BR: float32.
        ref_logp_BR: float32.
        advantage_BR: float32.
        weight_BR: float32, of each token's loss.
    """
    return {
        "labels": rollout.response_BR,
        "temperature": np.float32(temperature),
        "old_logp": old_logp_BR,
        "ref_logp": ref_logp_BR,
        "advantage": advantage_BR,
        "mask": weight_BR,
    }


@dataclass(frozen=True)
class Cut:
    """A minibatch cut into micro-batches.

    Attributes:
        count: what its loss is divided by.
        tokens: tokens of a weight above 0.
        batches: the objective's inputs by name, in its order.
    """

    count: float
    tokens: float
    batches: list[Batch]


def cut(
    minibatch: Minibatch,
    rollout: Rollout,
    columns: Mapping[str, np.ndarray],
    *,
    accumulate: int,
    count_B: np.ndarray | None = None,
) -> Cut:
    """The inputs of one optimizer step.

    Args:
        minibatch: which rows.
        rollout: prompts and answers.
        columns: the objective's inputs after the model's own, in order; the last is ``mask``, weights of tokens.
        accumulate: micro-batches the minibatch is cut into.
        count_B: what each row adds to what the loss is divided by; None: its tokens of a weight above 0.
    """
    mask_MR = columns["mask"][minibatch.rows_M] * minibatch.weight_M[:, None]
    tokens = float((mask_MR > 0).sum())
    count = tokens if count_B is None else float((count_B[minibatch.rows_M] * minibatch.weight_M).sum())
    batches = []
    for rows, mask in zip(np.split(minibatch.rows_M, accumulate), np.split(mask_MR, accumulate), strict=True):
        picked = {name: column[rows].reshape(-1) if column.ndim else column for name, column in columns.items()}
        inputs = rollout.inputs(rows) | {"targets": rollout.states(len(rows))}
        batches.append(inputs | picked | {"mask": mask.reshape(-1)})
    return Cut(count, tokens, batches)


def update_on(learner: Learner, step: Cut, *, total_steps: int) -> UpdateReport:
    """One optimizer step on a minibatch.

    Args:
        learner: takes it.
        step: the minibatch.
        total_steps: optimizer steps of the whole stage.

    Returns:
        What the step did, its metrics as means over tokens of a weight above 0.
    """
    report = learner.update(step.count, step.batches, total_steps)
    per_token = max(step.count, 1.0) / max(step.tokens, 1.0)
    return replace(report, metrics=tuple(value * per_token for value in report.metrics))
