"""GRPO and its relatives: answer, compare the answers to a prompt, learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from llmstack.config.grpo import GrpoConfig
from llmstack.engine.protocol import StepReport
from llmstack.errors import RunHalted
from llmstack.losses.ppo import PolicyLoss
from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from llmstack.rl.rewards_api import Scores
from llmstack.stages.grpo.experience import Experience, Readings, experience_of
from llmstack.stages.grpo.gathering import Gathered, gather
from llmstack.stages.learner import Learner
from llmstack.stages.objectives import PolicyObjective
from llmstack.stages.online.rollout import Rollout
from llmstack.stages.online.stage import OnlineStage
from llmstack.stages.online.updates import POLICY_METRICS, Learned, Seen, cut, deal, policy_columns, update_on


class GrpoStage(OnlineStage):
    """A policy trained on a reward without a critic. What tells the methods apart is chosen by options.

    One step is one iteration: ``samples_per_prompt`` answers to each prompt of a batch (of several batches with
    ``dynamic_sampling``), then ``epochs`` passes of minibatches over them.
    """

    kind: ClassVar[str] = "grpo"
    config: GrpoConfig

    def build_loss(self) -> None:
        """The policy's loss and optimizer, besides what every online stage has."""
        super().build_loss()
        config = self.config
        loss = PolicyLoss(
            config.clip_low,
            config.clip_high,
            dual_clip=config.dual_clip,
            entropy_coef=config.entropy_coef,
            kl_coef=config.kl.in_loss,
            answer_len=config.response_len if config.sequence_ratio else None,
        )
        objective = PolicyObjective(self.policy, loss)
        self.learner = Learner(objective, self.policy, config.optim, accumulate=config.accumulate)

    @property
    def trained(self) -> Mapping[str, tuple[CausalLM | ScalarModel, Learner]]:
        """The policy."""
        return {"policy": (self.policy, self.learner)}

    def step(self, index: int) -> StepReport:
        """One iteration.

        Args:
            index: number of the iteration, from 1.

        Raises:
            RunHalted: the mean KL of an answer to the reference passed ``kl.ceiling``, or dynamic sampling found no
                group with spread.
        """
        gathered = self.gather(index)
        with self.times.phase("score"):
            rollout = gathered.drawn.take(gathered.rows_B)
            readings = self.read(rollout)
            experience = experience_of(gathered, rollout, readings, self.config, beta=self.kl.beta)
        self.check_ceiling(experience.kl)
        with self.times.phase("update"):
            learned = self.learn(index, rollout, readings, experience)
        self.kl.update(experience.kl, len(rollout.mask_BR))
        drawn = self.loader.drain()
        metrics = {f"train/{name}": value for name, value in (experience.metrics | learned.metrics).items()}
        return StepReport(
            metrics=metrics | drawn.metrics,
            tokens=gathered.drawn.num_tokens,
            gauges={"train/lr": self.learner.lr, **drawn.gauges},
            skipped=learned.skipped,
            shown=("train/score_mean", "train/kl_policy_ref"),
            rows=drawn.rows,
            seconds=self.times.take(),
        )

    def gather(self, index: int) -> Gathered:
        """Answers with their scores, from further prompts too when dynamic sampling is on.

        Args:
            index: number of the iteration.

        Raises:
            RunHalted: dynamic sampling found no group with spread.
        """

        def draw(number: int) -> tuple[Rollout, Scores]:
            with self.times.phase("rollout"):
                rollout = self.answer("rollout", index, number)
            with self.times.phase("score"):
                return rollout, self.reward.score(rollout)

        dynamic = self.config.dynamic_sampling
        max_refills = None if dynamic is None else dynamic.max_refills
        gathered = gather(draw, group_size=self.config.samples_per_prompt, max_refills=max_refills)
        if not gathered.live_B.any():
            asked = len(gathered.scores.score_B) // self.config.samples_per_prompt
            raise RunHalted(
                f"stages.{self.context.name}.dynamic_sampling: expected prompts whose answers score differently, got "
                f"none among {asked} (mean score {gathered.scores.score_B.mean():g}). The task is too easy or too hard "
                "for this policy: change the prompts, raise samples_per_prompt or max_refills, or end the stage here."
            )
        return gathered

    def read(self, rollout: Rollout) -> Readings:
        """What policy and reference say of a rollout.

        Args:
            rollout: prompts and answers.
        """
        logp_BR, entropy_BR = self.log_probs(self.policy_logp, rollout)
        ref_logp_BR, _ = self.log_probs(self.reference_logp, rollout)
        return Readings(logp_BR, ref_logp_BR, entropy_BR)

    def learn(self, iteration: int, rollout: Rollout, readings: Readings, experience: Experience) -> Learned:
        """Several passes over the answers, left early when the policy moved too far from the one that sampled.

        A minibatch in which nothing counts takes no step.

        Args:
            iteration: number of the iteration, from 1.
            rollout: prompts and answers.
            readings: log-probabilities before the first update.
            experience: advantages and weights.
        """
        config, seen = self.config, Seen()
        columns = policy_columns(
            rollout,
            temperature=config.temperature,
            old_logp_BR=readings.logp_BR,
            ref_logp_BR=readings.ref_logp_BR,
            advantage_BR=experience.advantage_BR,
            weight_BR=experience.weight_BR,
        )
        seed = self.context.derived_seed("minibatches")
        for minibatch in deal(config, len(rollout.mask_BR), seed=seed, iteration=iteration):
            if not experience.count_B[minibatch.rows_M].any():
                continue
            step = cut(minibatch, rollout, columns, accumulate=config.accumulate, count_B=experience.count_B)
            report = update_on(self.learner, step, total_steps=self.total_steps * config.epochs * config.minibatches)
            seen.note("policy", report, POLICY_METRICS)
            if config.max_ratio_kl is not None and seen.last("kl_old_new") > config.max_ratio_kl:
                break
        learned = seen.learned()
        learned.metrics["updates"] = float(seen.count("policy_loss"))
        return learned
