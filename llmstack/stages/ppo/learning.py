"""The updates of one PPO iteration: minibatches over the same rollout, policy and critic in turn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from llmstack.config.ppo import PpoConfig
from llmstack.optim.updater import UpdateReport
from llmstack.rl.minibatch import Minibatch, minibatches
from llmstack.stages.learner import Learner
from llmstack.stages.online.rollout import Rollout
from llmstack.stages.ppo.experience import Experience

POLICY_METRICS = ("clip_fraction", "kl_old_new", "entropy_new")
SHARED_METRICS = ("value_loss", "value_mean")


@dataclass(frozen=True)
class Schedule:
    """How many optimizer steps each learner takes in the whole stage.

    Attributes:
        policy_steps: of the policy.
        critic_steps: of the critic.
    """

    policy_steps: int
    critic_steps: int


@dataclass(frozen=True)
class Learned:
    """What an iteration's updates report.

    Attributes:
        metrics: means over the minibatches.
        skipped: whether any update had a non-finite gradient.
    """

    metrics: dict[str, float]
    skipped: bool


class PpoLearner:
    """Policy and critic with their optimizers.

    Args:
        policy: descends the clipped surrogate, and the value error too when there is no ``critic``.
        critic: descends the clipped value error; None when it shares the policy's trunk.
        config: the stage's options.
        seed: of the minibatches' order.
    """

    def __init__(self, policy: Learner, critic: Learner | None, config: PpoConfig, *, seed: int) -> None:
        self.policy, self.critic = policy, critic
        self._config, self._seed = config, seed
        self._temperature = np.float32(config.temperature)

    def learn(self, iteration: int, rollout: Rollout, experience: Experience, schedule: Schedule) -> Learned:
        """Several passes over one rollout, left early when the policy moved too far from the one that sampled.

        Args:
            iteration: number of the PPO iteration, from 1.
            rollout: prompts and answers.
            experience: advantages, returns and old values.
            schedule: total optimizer steps.

        Returns:
            Metrics of the updates.
        """
        config = self._config
        policy_learns = iteration > config.critic.warmup_iterations
        seen: dict[str, list[float]] = defaultdict(list)
        skipped = False
        of_policy, of_critic = self._policy_columns(rollout, experience), self._critic_columns(experience)
        for minibatch in self._minibatches(iteration, len(rollout.mask_BR)):
            if policy_learns:
                columns = of_policy if self.critic else _joined(of_policy, of_critic)
                report = self._update(self.policy, minibatch, rollout, columns, schedule.policy_steps)
                _note(seen, "policy", report, POLICY_METRICS if self.critic else POLICY_METRICS + SHARED_METRICS)
                skipped = skipped or not report.finite
            if self.critic:
                report = self._update(self.critic, minibatch, rollout, of_critic, schedule.critic_steps)
                _note(seen, "value", report, ("value_mean",))
                skipped = skipped or not report.finite
            if config.max_ratio_kl is not None and policy_learns and seen["kl_old_new"][-1] > config.max_ratio_kl:
                break
        metrics = {name: float(np.mean(values)) for name, values in seen.items()}
        metrics["updates"] = float(len(seen["value_loss"]))
        return Learned(metrics, skipped)

    def _minibatches(self, iteration: int, num_rows: int) -> list[Minibatch]:
        config = self._config
        return [
            minibatch
            for epoch in range(config.epochs)
            for minibatch in minibatches(
                num_rows, config.minibatches, seed=self._seed, iteration=iteration, epoch=epoch
            )
        ]

    def _policy_columns(self, rollout: Rollout, experience: Experience) -> dict[str, np.ndarray]:
        return {
            "labels": rollout.response_BR,
            "temperature": self._temperature,
            "old_logp": experience.old_logp_BR,
            "ref_logp": experience.ref_logp_BR,
            "advantage": experience.advantage_BR,
            "mask": experience.mask_BR,
        }

    def _critic_columns(self, experience: Experience) -> dict[str, np.ndarray]:
        return {"old_value": experience.old_value_BR, "returns": experience.return_BR, "mask": experience.mask_BR}

    def _update(
        self,
        learner: Learner,
        minibatch: Minibatch,
        rollout: Rollout,
        columns: dict[str, np.ndarray],
        total_steps: int,
    ) -> UpdateReport:
        """One optimizer step on a minibatch; ``columns`` are the objective's inputs after the models' own, in order."""
        mask_MR = columns["mask"][minibatch.rows_M] * minibatch.weight_M[:, None]
        batches = []
        parts = self._config.accumulate
        for rows, mask in zip(np.split(minibatch.rows_M, parts), np.split(mask_MR, parts), strict=True):
            picked = {name: column[rows].reshape(-1) if column.ndim else column for name, column in columns.items()}
            inputs = rollout.inputs(rows) | {"targets": rollout.states(len(rows))}
            batches.append(inputs | picked | {"mask": mask.reshape(-1)})
        return learner.update(float(mask_MR.sum()), batches, total_steps)


def _joined(of_policy: dict[str, np.ndarray], of_critic: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns of both, the mask last, as :class:`~llmstack.stages.objectives.ActorCriticObjective` takes them."""
    return {name: array for name, array in of_policy.items() if name != "mask"} | of_critic


def _note(seen: dict[str, list[float]], name: str, report: UpdateReport, metrics: tuple[str, ...]) -> None:
    seen[f"{name}_loss"].append(report.loss)
    seen[f"{name}_grad_norm"].append(report.grad_norm)
    for metric, value in zip(metrics, report.metrics, strict=True):
        seen[metric].append(value)
