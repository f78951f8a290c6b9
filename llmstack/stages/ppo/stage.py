"""PPO: answer, score, learn."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from mindspore import Tensor

from llmstack.config.stages import PpoConfig
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.loader import EvalBatches
from llmstack.data.row_tables import Batch
from llmstack.engine.protocol import StageState, StepReport
from llmstack.errors import RunHalted
from llmstack.generation.pool import GeneratorPool
from llmstack.losses.ppo import PolicyLoss, ValueLoss
from llmstack.models.causal_lm import CausalLM
from llmstack.models.checkpoint_io import build_causal
from llmstack.models.weights import export_arrays, import_arrays, share_parameters
from llmstack.rl.kl import sequence_kl
from llmstack.rl.kl_control import kl_controller
from llmstack.rl.rewards_api import RewardBatch
from llmstack.stages.base import Stage
from llmstack.stages.learner import Learner
from llmstack.stages.objectives import CriticObjective, PolicyObjective
from llmstack.stages.ppo.experience import Readings, experience_of
from llmstack.stages.ppo.learning import PpoLearner, Schedule
from llmstack.stages.ppo.rewards import make_reward
from llmstack.stages.ppo.rollout import Rollout, assemble
from llmstack.stages.scoring import TargetLogProbs, TargetValues


class PpoStage(Stage):
    """A policy trained on a reward, held near a reference.

    One step is one iteration: an answer to each prompt of a batch, then ``epochs`` passes of minibatches over them.
    """

    kind: ClassVar[str] = "ppo"
    config: PpoConfig

    def build_models(self) -> None:
        """Policy, reference, critic, and the reward with its model."""
        config = self.config
        path = f"stages.{self.context.name}"
        self.policy: CausalLM = self.language_model(config.init_from, "policy")
        if config.lora is not None and config.reference == config.init_from:
            self.reference = build_causal(self.policy.config, seed=None)
            # the frozen weights under the adapters are the reference's
            share_parameters(self.reference, self.policy)
        else:
            self.reference = self.language_model(config.reference, "reference")
        self.to_train(self.policy, "policy")
        self.critic = self.to_train(self.scalar_model(config.critic.init_from or config.init_from, "critic"), "critic")
        self.reward = make_reward(config.reward, self, f"{path}.reward")
        self.yardsticks = {
            name: make_reward(options, self, f"{path}.yardsticks.{name}") for name, options in config.yardsticks.items()
        }

    def build_loader(self) -> None:
        """Prompts to train on, and prompts to be judged on."""
        config, corpus = self.config, self.context.corpus
        self.loader = self.make_loader(lambda source: corpus.rows(config, source))
        self.prompts = cast(PromptRows, self.loader.rows)
        self.eval_prompts = cast(PromptRows, corpus.rows(config, config.eval_data, evaluation=True))
        self.eval_batches = EvalBatches(self.eval_prompts, batch_rows=self.config.batch_rows)

    def build_loss(self) -> None:
        """Losses, optimizers, the Cells that score, the sampler and the KL controller."""
        config = self.config
        policy_loss = PolicyLoss(
            config.clip_low,
            config.clip_high,
            dual_clip=config.dual_clip,
            entropy_coef=config.entropy_coef,
            kl_coef=config.kl.in_loss,
        )
        critic_optim = config.optim.model_copy(update={"lr": config.critic.lr})
        self.learner = PpoLearner(
            Learner(PolicyObjective(self.policy, policy_loss), self.policy, config.optim, accumulate=config.accumulate),
            Learner(
                CriticObjective(self.critic, ValueLoss(config.critic.value_clip)),
                self.critic,
                critic_optim,
                accumulate=config.accumulate,
            ),
            config,
            seed=self.context.derived_seed("minibatches"),
        )
        self.policy_logp = TargetLogProbs(self.policy)
        self.reference_logp = TargetLogProbs(self.reference)
        self.values = TargetValues(self.critic)
        self.kl = kl_controller(config.kl)
        self.sampler = GeneratorPool(self.policy, eos_ids=self.context.tokenizer.eos_ids)
        self._samples: list[dict[str, Any]] = []

    def step(self, index: int) -> StepReport:
        """One iteration.

        Args:
            index: number of the iteration, from 1.

        Raises:
            RunHalted: the mean KL of an answer to the reference passed ``kl.ceiling``.
        """
        config = self.config
        rollout = self.roll_out(self.loader.next(), self.prompts, self.context.generator("rollout", index))
        experience = experience_of(rollout, self.read(rollout), config, beta=self.kl.beta)
        if experience.kl > config.kl.ceiling:
            raise RunHalted(
                f"stages.{self.context.name}.kl.ceiling: the answers are {experience.kl:.1f} nats from the reference, "
                f"more than {config.kl.ceiling:g}. Raise kl.beta, lower optim.lr or epochs, or raise the ceiling."
            )
        learned = self.learner.learn(index, rollout, experience, self._schedule)
        self.kl.update(experience.kl, len(rollout.mask_BR))
        drawn = self.loader.drain()
        metrics = {f"train/{name}": value for name, value in (experience.metrics | learned.metrics).items()}
        gauges = {"train/lr": self.learner.policy.lr, "train/critic_lr": self.learner.critic.lr, **drawn.gauges}
        return StepReport(
            metrics=metrics | drawn.metrics,
            tokens=rollout.num_tokens,
            gauges=gauges,
            skipped=learned.skipped,
            shown=("train/score_mean", "train/kl_policy_ref"),
            rows=drawn.rows,
        )

    def roll_out(self, prompts: Batch, table: PromptRows, generator: np.random.Generator) -> Rollout:
        """Sample one answer to each prompt.

        Args:
            prompts: a batch of ``table``.
            table: has the prompts' texts.
            generator: the sampling noise.
        """
        num_rows, prompt_len = prompts["tokens"].shape
        answers = self.sampler.generator(
            batch_rows=num_rows, prompt_len=prompt_len, max_new_tokens=self.config.response_len
        ).generate(prompts["tokens"], prompts["lengths"], temperature=self.config.temperature, rng=generator)
        decode = self.context.tokenizer.decode
        texts = RewardBatch(
            prompts=[table.prompts[i] for i in prompts["index"]],
            responses=[decode(row[:length]) for row, length in zip(answers.tokens, answers.lengths, strict=True)],
            answers=[table.answers[i] for i in prompts["index"]],
        )
        return assemble(prompts, answers, texts)

    def read(self, rollout: Rollout) -> Readings:
        """What policy, reference, critic and reward say of a rollout.

        Args:
            rollout: prompts and answers.
        """
        num_rows, response_len = rollout.mask_BR.shape
        inputs = tuple(Tensor(array) for array in rollout.inputs().values())
        (logp, entropy), (ref_logp, _) = (
            self._logp(cell, inputs, rollout) for cell in (self.policy_logp, self.reference_logp)
        )
        states = Tensor(rollout.states(num_rows, after_last=True))
        value_BS = self.values(*inputs, states).asnumpy().reshape(num_rows, response_len + 1)
        return Readings(logp, ref_logp, entropy, value_BS, self.reward.score(rollout))

    def evaluate(self) -> dict[str, float]:
        """Score, yardsticks, KL and lengths of answers to prompts never trained on, always with the same noise."""
        kept: dict[str, list[float]] = {name: [] for name in ("score", "kl", "length", "finished", *self.yardsticks)}
        self._samples = []
        for number, batch in enumerate(self.eval_batches):
            rollout = self.roll_out(batch, self.eval_prompts, self.context.generator("evaluate", number))
            real = batch["weight"] > 0
            for name, values in self._judge(rollout).items():
                kept[name] += [float(value) for value in values[real] if np.isfinite(value)]
            self._keep_samples(rollout, real)
        means = {name: float(np.mean(values)) if values else float("nan") for name, values in kept.items()}
        return {
            "eval/score": means.pop("score"),
            "eval/kl_policy_ref": means.pop("kl"),
            "eval/response_tokens": means.pop("length"),
            "eval/finished_ratio": means.pop("finished"),
            "eval/prompts": float(len(kept["kl"])),
        } | {f"eval/{name}": value for name, value in means.items()}

    def samples(self) -> list[dict[str, Any]]:
        """Prompts and answers of the last evaluation."""
        return self._samples

    def state(self) -> StageState:
        """Policy, critic, both optimizers, data position and beta."""
        parts = {"policy": (self.policy, self.learner.policy), "critic": (self.critic, self.learner.critic)}
        return StageState(
            params={
                f"{part}.{name}": array
                for part, (model, _) in parts.items()
                for name, array in export_arrays(model, trained_only=True).items()
            },
            optimizer={f"{part}.{n}": a for part, (_, learner) in parts.items() for n, a in learner.state().items()},
            trainer={"loader": self.loader.state(), "kl": self.kl.state()},
        )

    def restore(self, state: StageState) -> None:
        """Put a ``state`` back.

        Args:
            state: what ``state()`` gave.
        """
        for part, model in (("policy", self.policy), ("critic", self.critic)):
            import_arrays(model, _part(state.params, part), source=f"checkpoint ({part})", trained_only=True)
        self.learner.policy.restore(_part(state.optimizer, "policy"))
        self.learner.critic.restore(_part(state.optimizer, "critic"))
        self.loader.restore(state.trainer["loader"])
        self.kl.restore(state.trainer["kl"])

    @property
    def final_model(self) -> CausalLM:
        """The trained policy."""
        return self.policy

    @property
    def _schedule(self) -> Schedule:
        updates = self.config.epochs * self.config.minibatches
        warmup = min(self.config.critic.warmup_iterations, self.total_steps)
        return Schedule(
            policy_steps=max(1, (self.total_steps - warmup) * updates), critic_steps=self.total_steps * updates
        )

    def _logp(
        self, cell: TargetLogProbs, inputs: tuple[Tensor, ...], rollout: Rollout
    ) -> tuple[np.ndarray, np.ndarray]:
        labels_BR = rollout.response_BR
        targets = Tensor(rollout.states(len(labels_BR)))
        temperature = Tensor(np.float32(self.config.temperature))
        logp, entropy = cell(*inputs, targets, Tensor(labels_BR.reshape(-1)), temperature)
        return logp.asnumpy().reshape(labels_BR.shape), entropy.asnumpy().reshape(labels_BR.shape)

    def _judge(self, rollout: Rollout) -> dict[str, np.ndarray]:
        """A number an answer for everything evaluation reports; NaN where unscored."""
        inputs = tuple(Tensor(array) for array in rollout.inputs().values())
        (logp, _), (ref_logp, _) = (
            self._logp(cell, inputs, rollout) for cell in (self.policy_logp, self.reference_logp)
        )
        judged = {
            "kl": sequence_kl(logp, ref_logp, rollout.mask_BR),
            "length": rollout.mask_BR.sum(axis=1),
            "finished": rollout.finished_B.astype(np.float64),
        }
        for name, reward in {"score": self.reward, **self.yardsticks}.items():
            scores = reward.score(rollout)
            judged[name] = np.where(scores.scored_B, scores.score_B, np.nan)
        return judged

    def _keep_samples(self, rollout: Rollout, real: np.ndarray) -> None:
        for row in np.flatnonzero(real):
            self._samples.append(
                {
                    "prompt": rollout.texts.prompts[row],
                    "response": rollout.texts.responses[row],
                    "finished": bool(rollout.finished_B[row]),
                }
            )


def _part(arrays: dict[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
