"""The updates of one PPO iteration: minibatches over the same rollout, policy and critic in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmstack.config.ppo import PpoConfig
from llmstack.optim.updater import UpdateReport
from llmstack.rl.minibatch import Minibatch
from llmstack.stages.learner import Learner
from llmstack.stages.online.rollout import Rollout
from llmstack.stages.online.updates import POLICY_METRICS, Learned, Seen, deal, policy_columns, update_on
from llmstack.stages.ppo.experience import Experience

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
        seen = Seen()
        of_policy, of_critic = self._policy_columns(rollout, experience), self._critic_columns(experience)
        for minibatch in deal(config, len(rollout.mask_BR), seed=self._seed, iteration=iteration):
            if policy_learns:
                columns = of_policy if self.critic else _joined(of_policy, of_critic)
                report = self._update(self.policy, minibatch, rollout, columns, schedule.policy_steps)
                seen.note("policy", report, POLICY_METRICS if self.critic else POLICY_METRICS + SHARED_METRICS)
            if self.critic:
                report = self._update(self.critic, minibatch, rollout, of_critic, schedule.critic_steps)
                seen.note("value", report, ("value_mean",))
            if config.max_ratio_kl is not None and seen.last("kl_old_new") > config.max_ratio_kl:
                break
        learned = seen.learned()
        learned.metrics["updates"] = float(seen.count("value_loss"))
        return learned

    def _policy_columns(self, rollout: Rollout, experience: Experience) -> dict[str, np.ndarray]:
        return policy_columns(
            rollout,
            temperature=self._config.temperature,
            old_logp_BR=experience.old_logp_BR,
            ref_logp_BR=experience.ref_logp_BR,
            advantage_BR=experience.advantage_BR,
            weight_BR=experience.mask_BR,
        )

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
        return update_on(
            learner, minibatch, rollout, columns, accumulate=self._config.accumulate, total_steps=total_steps
        )


def _joined(of_policy: dict[str, np.ndarray], of_critic: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns of both, the mask last, as :class:`~llmstack.stages.objectives.ActorCriticObjective` takes them."""
    return {name: array for name, array in of_policy.items() if name != "mask"} | of_critic
