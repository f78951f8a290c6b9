"""On-policy distillation: the student answers, and learns the teacher's distribution at each token of its answers.

Agarwal et al. 2024 (GKD), with answers of the student alone: it is corrected where it goes by itself, not only where
the data goes. No gradient passes through the sampling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from llmstack.config.distill import DistillOnlineConfig
from llmstack.engine.protocol import StepReport
from llmstack.models.causal_lm import CausalLM
from llmstack.rl.kl import sequence_kl, token_kl
from llmstack.rl.kl_control import FixedKl
from llmstack.rl.rewards_api import Scores
from llmstack.rl.whiten import masked_mean
from llmstack.stages.distill.objective import AnswerObjective
from llmstack.stages.distill.teacher import load_teacher, soft_loss
from llmstack.stages.learner import Learner
from llmstack.stages.online.rewards import make_reward
from llmstack.stages.online.rollout import Rollout
from llmstack.stages.online.stage import OnlineStage
from llmstack.stages.online.updates import Learned, Seen, cut, deal, update_on


class DistillOnlineStage(OnlineStage):
    """A student that learns from a teacher at its own answers; the teacher is the reference that KL is measured to."""

    kind: ClassVar[str] = "distill_online"
    config: DistillOnlineConfig

    def build_models(self) -> None:
        """Student, teacher, and the yardsticks with their models."""
        config, path = self.config, f"stages.{self.context.name}"
        self.policy = self.language_model(config.init_from, "policy")
        self.reference = load_teacher(self, config.teacher, self.policy)
        self.to_train(self.policy, "policy")
        self.reward = TeacherScore(self)
        self.yardsticks = {
            name: make_reward(options, self, f"{path}.yardsticks.{name}") for name, options in config.yardsticks.items()
        }

    def build_loss(self) -> None:
        """The divergence, its optimizer, the sampler and the Cells that score."""
        super().build_loss()
        config = self.config
        soft = soft_loss(config.divergence, self.policy, f"stages.{self.context.name}.divergence")
        objective = AnswerObjective(self.policy, self.reference, soft=soft)
        self.learner = Learner(objective, self.policy, config.optim, accumulate=config.accumulate)

    def kl_control(self) -> FixedKl:
        """Nothing: there is no reward for a KL to be in."""
        return FixedKl(0.0)

    @property
    def trained(self) -> Mapping[str, tuple[CausalLM, Learner]]:
        """The student."""
        return {"policy": (self.policy, self.learner)}

    def step(self, index: int) -> StepReport:
        """One iteration: answers, then ``epochs`` passes of minibatches over them.

        Args:
            index: number of the iteration, from 1.
        """
        with self.times.phase("rollout"):
            rollout = self.answer("rollout", index)
        with self.times.phase("score"):
            measured = self._measure(rollout)
        with self.times.phase("update"):
            learned = self._learn(index, rollout)
        drawn = self.loader.drain()
        metrics = measured | {name.removeprefix("policy_"): value for name, value in learned.metrics.items()}
        return StepReport(
            metrics={f"train/{name}": value for name, value in metrics.items()} | drawn.metrics,
            tokens=rollout.num_tokens,
            gauges={"train/lr": self.learner.lr, **drawn.gauges},
            skipped=learned.skipped,
            shown=("train/loss", "train/reverse_kl"),
            rows=drawn.rows,
            seconds=self.times.take(),
        )

    def _measure(self, rollout: Rollout) -> dict[str, float]:
        """The answers, and the teacher's verdict on their tokens."""
        (logp, entropy), (teacher_logp, _) = (
            self.log_probs(cell, rollout) for cell in (self.policy_logp, self.reference_logp)
        )
        mask_BR = rollout.mask_BR
        mismatch = np.abs(logp - rollout.sampled_logp_BR) * mask_BR
        return {
            "reverse_kl": token_kl(logp, teacher_logp, mask_BR),
            "answer_reverse_kl": float(sequence_kl(logp, teacher_logp, mask_BR).mean()),
            "student_entropy": masked_mean(entropy, mask_BR),
            "response_tokens": float(mask_BR.sum(axis=1).mean()),
            "truncated_ratio": float((~rollout.finished_B).mean()),
            "sampler_mismatch": float(mismatch.max()),
        }

    def _learn(self, iteration: int, rollout: Rollout) -> Learned:
        """Passes of minibatches over the answers."""
        config, seen = self.config, Seen()
        seed = self.context.derived_seed("minibatches")
        total_steps = self.total_steps * config.epochs * config.minibatches
        for minibatch in deal(config, len(rollout.mask_BR), seed=seed, iteration=iteration):
            step = cut(minibatch, rollout, {"mask": rollout.mask_BR}, accumulate=config.accumulate)
            report = update_on(self.learner, step, total_steps=total_steps)
            seen.note("policy", report, ())
        return seen.learned()


class TeacherScore:
    """How likely the teacher finds an answer: the mean log-probability of its tokens, in nats.

    Args:
        stage: has the teacher's log-probabilities once it is built.
    """

    def __init__(self, stage: DistillOnlineStage) -> None:
        self._stage = stage

    def score(self, rollout: Rollout) -> Scores:
        """One score an answer.

        Args:
            rollout: prompts and answers.
        """
        logp_BR, _ = self._stage.log_probs(self._stage.reference_logp, rollout)
        length_B = np.maximum(rollout.mask_BR.sum(axis=1), 1.0)
        score_B = ((logp_BR * rollout.mask_BR).sum(axis=1) / length_B).astype(np.float32)
        return Scores(score_B=score_B, scored_B=np.isfinite(score_B))
