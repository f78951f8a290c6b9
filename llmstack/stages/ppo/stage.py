"""PPO: answer, score, learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from mindspore import Tensor, nn

from llmstack.config.ppo import PpoConfig
from llmstack.engine.protocol import StageState, StepReport
from llmstack.errors import UserError
from llmstack.losses.ppo import PolicyLoss, ValueLoss
from llmstack.models.actor_critic import ActorCritic
from llmstack.rl.score_scale import ScoreScale
from llmstack.stages.learner import Learner
from llmstack.stages.objectives import ActorCriticObjective, CriticObjective, PolicyObjective
from llmstack.stages.online.rollout import Rollout
from llmstack.stages.online.stage import OnlineStage
from llmstack.stages.ppo.experience import Experience, Readings, experience_of
from llmstack.stages.ppo.learning import PpoLearner, Schedule
from llmstack.stages.ppo.pretraining import TextMix, WithText
from llmstack.stages.scoring import TargetLogProbsAndValues, TargetValues


class PpoStage(OnlineStage):
    """A policy trained on a reward, held near a reference.

    One step is one iteration: answers to the prompts of a batch, then ``epochs`` passes of minibatches over them.
    """

    kind: ClassVar[str] = "ppo"
    config: PpoConfig
    # a subclass with a loader of its own has none unless it makes one
    text: TextMix | None = None

    def build_models(self) -> None:
        """Policy, reference, critic, and the reward with its model."""
        super().build_models()
        options = self.config.critic
        if options.trunk == "shared":
            self.actor_critic = ActorCritic(self.policy)
        else:
            source = options.init_from or self.config.init_from
            self.critic = self.to_train(self.scalar_model(source, "critic"), "critic")

    def build_loader(self) -> None:
        """Prompts, and the text that is mixed in."""
        super().build_loader()
        corpus, options, accumulate = self.context.corpus, self.config.pretraining, self.config.accumulate
        seed = self.context.derived_seed("pretraining")
        self.text = TextMix(corpus, options, accumulate=accumulate, seed=seed) if options else None

    def build_loss(self) -> None:
        """Losses, optimizers, the Cells that score, the sampler and the KL controller."""
        super().build_loss()
        config = self.config
        policy_loss = PolicyLoss(
            config.clip_low,
            config.clip_high,
            dual_clip=config.dual_clip,
            entropy_coef=config.entropy_coef,
            kl_coef=config.kl.in_loss,
        )
        value_loss, optim = ValueLoss(config.critic.value_clip), config.optim
        critic: Learner | None = None
        if config.critic.trunk == "shared":
            both = ActorCriticObjective(self.actor_critic, policy_loss, value_loss, value_coef=config.critic.coef)
            policy = Learner(self._with_text(both), self.actor_critic, optim, accumulate=config.accumulate)
            self.logp_and_values = TargetLogProbsAndValues(self.actor_critic)
        else:
            own = optim.model_copy(update={"lr": config.critic.lr or optim.lr})
            alone = self._with_text(PolicyObjective(self.policy, policy_loss))
            policy = Learner(alone, self.policy, optim, accumulate=config.accumulate)
            critic = Learner(CriticObjective(self.critic, value_loss), self.critic, own, accumulate=config.accumulate)
            self.values = TargetValues(self.critic)
        seed = self.context.derived_seed("minibatches")
        self.learner = PpoLearner(policy, critic, config, seed=seed, text=self.text)
        self.score_scale = ScoreScale()

    @property
    def trained(self) -> Mapping[str, tuple[nn.Cell, Learner]]:
        """Policy and critic; with a shared trunk the policy with its value head."""
        if self.learner.critic is None:
            return {"policy": (self.actor_critic, self.learner.policy)}
        return {"policy": (self.policy, self.learner.policy), "critic": (self.critic, self.learner.critic)}

    def step(self, index: int) -> StepReport:
        """One iteration.

        Args:
            index: number of the iteration, from 1.

        Raises:
            RunHalted: the mean KL of an answer to the reference passed ``kl.ceiling``.
        """
        with self.times.phase("rollout"):
            rollout = self.answer("rollout", index)
        with self.times.phase("score"):
            experience = self.experience(rollout, self.read(rollout))
        self.check_ceiling(experience.kl)
        with self.times.phase("update"):
            learned = self.learner.learn(index, rollout, experience, self._schedule)
        self.kl.update(experience.kl, len(rollout.mask_BR))
        drawn = self.loader.drain()
        metrics = {f"train/{name}": value for name, value in (experience.metrics | learned.metrics).items()}
        gauges = {"train/lr": self.learner.policy.lr, **drawn.gauges}
        if self.learner.critic is not None:
            gauges["train/critic_lr"] = self.learner.critic.lr
        return StepReport(
            metrics=metrics | drawn.metrics,
            tokens=rollout.num_tokens,
            gauges=gauges,
            skipped=learned.skipped,
            shown=("train/score_mean", "train/kl_policy_ref"),
            rows=drawn.rows | (self.text.drain() if self.text else {}),
            seconds=self.times.take(),
        )

    def experience(self, rollout: Rollout, readings: Readings) -> Experience:
        """What is learnt from a rollout; override it to change rewards or advantages.

        Args:
            rollout: prompts and answers.
            readings: log-probabilities, values and scores.

        Raises:
            UserError: scores of steps are to be clipped.
        """
        scores, options = readings.scores, self.config.scores
        if options.clip is not None and scores.token_score_BR is not None:
            raise UserError(
                f"stages.{self.context.name}.scores.clip: expected null because the reward scores steps, "
                f"got {options.clip:g}. Let its function keep to the bounds."
            )
        if options.normalise == "running":
            self.score_scale.update(scores.score_B, scores.scored_B)
        return experience_of(rollout, readings, self.config, beta=self.kl.beta, score_std=self.score_scale.std)

    def read(self, rollout: Rollout) -> Readings:
        """What policy, reference, critic and reward say of a rollout.

        Args:
            rollout: prompts and answers.
        """
        num_rows, response_len = rollout.mask_BR.shape
        ref_logp, _ = self.log_probs(self.reference_logp, rollout)
        inputs = (*rollout.inputs().values(), rollout.states(num_rows, after_last=True))
        if self.learner.critic is None:
            # the state behind the last place has no token: any label will do
            labels = np.pad(rollout.response_BR, ((0, 0), (0, 1))).reshape(-1)
            inputs = (*inputs, labels, np.float32(self.config.temperature))
            read = [out.asnumpy().reshape(num_rows, -1) for out in self.logp_and_values(*map(Tensor, inputs))]
            logp, entropy, value_BS = read[0][:, :-1], read[1][:, :-1], read[2]
        else:
            logp, entropy = self.log_probs(self.policy_logp, rollout)
            value_BS = self.values(*map(Tensor, inputs)).asnumpy().reshape(num_rows, response_len + 1)
        return Readings(logp, ref_logp, entropy, value_BS, self.reward.score(rollout))

    def undo_step(self) -> None:
        """Put back what a step had taken: its prompts and its text."""
        super().undo_step()
        if self.text:
            self.text.loader.rewind()

    def state(self) -> StageState:
        """What every online stage has, the scale of the scores and the position in the text."""
        state = super().state()
        own = {"scores": self.score_scale.state()} | ({"text": self.text.state()} if self.text else {})
        return replace(state, trainer={**state.trainer, **own})

    def restore(self, state: StageState) -> None:
        """Put a ``state`` back.

        Args:
            state: what ``state()`` gave.
        """
        super().restore(state)
        self.score_scale.restore(state.trainer["scores"])
        if self.text:
            self.text.restore(state.trainer["text"])

    def _with_text(self, objective: nn.Cell) -> nn.Cell:
        return WithText(objective, self.policy) if self.text else objective

    @property
    def _schedule(self) -> Schedule:
        updates = self.config.epochs * self.config.minibatches
        warmup = min(self.config.critic.warmup_iterations, self.total_steps)
        return Schedule(
            policy_steps=max(1, (self.total_steps - warmup) * updates), critic_steps=self.total_steps * updates
        )
