"""The updates of one PPO iteration: minibatches over the same rollout, policy and critic in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmstack.config.ppo import PpoConfig
from llmstack.stages.learner import Learner
from llmstack.stages.online.rollout import Rollout
from llmstack.stages.online.updates import POLICY_METRICS, Learned, Seen, cut, deal, policy_columns, update_on
from llmstack.stages.ppo.experience import Experience
from llmstack.stages.ppo.pretraining import TextMix

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
        text: what the policy predicts besides, in the objective of which it then is; None: nothing.
    """

    def __init__(
        self, policy: Learner, critic: Learner | None, config: PpoConfig, *, seed: int, text: TextMix | None = None
    ) -> None:
        self.policy, self.critic = policy, critic
        self._config, self._seed, self._text = config, seed, text
        of_policy = POLICY_METRICS if critic else POLICY_METRICS + SHARED_METRICS
        self._policy_metrics = of_policy if text is None else (*of_policy, "text_loss")

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
        of_policy, of_critic = self._policy_columns(rollout, experience), self._critic_columns(experience)
        seen = Seen()
        for minibatch in deal(config, len(rollout.mask_BR), seed=self._seed, iteration=iteration):
            if policy_learns:
                columns = of_policy if self.critic else _joined(of_policy, of_critic)
                step = cut(minibatch, rollout, columns, accumulate=config.accumulate)
                step = self._text.add_to(step) if self._text else step
                report = update_on(self.policy, step, total_steps=schedule.policy_steps)
                seen.note("policy", report, self._policy_metrics)
            if self.critic:
                step = cut(minibatch, rollout, of_critic, accumulate=config.accumulate)
                report = update_on(self.critic, step, total_steps=schedule.critic_steps)
                seen.note("value", report, ("value_mean",))
            if config.max_ratio_kl is not None and policy_learns and seen.last("kl_old_new") > config.max_ratio_kl:
                break
        learned = seen.learned()
        learned.metrics["updates"] = float(seen.count("value_loss"))
        if self._text and "text_loss" in learned.metrics:
            learned.metrics["text_loss"] /= self._text.coef
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


def _joined(of_policy: dict[str, np.ndarray], of_critic: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns of both, the mask last, as :class:`~llmstack.stages.objectives.ActorCriticObjective` takes them."""
    return {name: array for name, array in of_policy.items() if name != "mask"} | of_critic
