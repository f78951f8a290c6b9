"""The base of the stages that answer prompts, have the answers scored and learn from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from mindspore import Tensor, nn

from llmstack.config.online import OnlineConfig
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.loader import EvalBatches
from llmstack.data.row_tables import Batch
from llmstack.engine.protocol import StageState
from llmstack.errors import RunHalted
from llmstack.generation.pool import GeneratorPool
from llmstack.models.causal_lm import CausalLM
from llmstack.models.checkpoint_io import build_causal
from llmstack.models.weights import export_arrays, import_arrays, share_parameters
from llmstack.rl.kl import sequence_kl
from llmstack.rl.kl_control import AdaptiveKl, FixedKl, kl_controller
from llmstack.runtime.phases import PhaseTimes
from llmstack.stages.base import Stage
from llmstack.stages.learner import Learner
from llmstack.stages.online.judge import judge
from llmstack.stages.online.rewards import make_reward
from llmstack.stages.online.rollout import Rollout, roll_out
from llmstack.stages.scoring import TargetLogProbs


class OnlineStage(Stage):
    """Policy, reference, rewards, rollouts and evaluation; a subclass says what is learnt from a rollout.

    One step is one iteration. Subclasses extend ``build_models`` and ``build_loss`` and write ``step`` and ``trained``.

    Attributes:
        policy: what is trained.
        reference: what the KL is measured against.
        prompts: of training.
        kl: weight of the KL to the reference.
        times: seconds of a step's phases.
    """

    config: OnlineConfig

    def build_models(self) -> None:
        """Policy, reference, and the rewards with their models."""
        config, path = self.config, f"stages.{self.context.name}"
        self.policy: CausalLM = self.language_model(config.init_from, "policy")
        if config.lora is not None and config.reference == config.init_from:
            self.reference = build_causal(self.policy.config, seed=None)
            # the frozen weights under the adapters are the reference's
            share_parameters(self.reference, self.policy)
        else:
            self.reference = self.language_model(config.reference, "reference")
        self.to_train(self.policy, "policy")
        self.reward = make_reward(config.reward, self, f"{path}.reward")
        self.yardsticks = {
            name: make_reward(options, self, f"{path}.yardsticks.{name}") for name, options in config.yardsticks.items()
        }

    def build_loader(self) -> None:
        """Prompts to train on, and prompts to be judged on."""
        config, corpus = self.config, self.context.corpus
        self.loader = self.make_loader(lambda source: corpus.rows(config, source))
        self.prompts = cast(PromptRows, self.loader.rows)
        self.eval_prompts = corpus.prompts(config.eval_data, config.prompt_buckets, at_most=config.eval_prompts)
        self.eval_batches = EvalBatches(self.eval_prompts, batch_rows=config.batch_rows)

    def build_loss(self) -> None:
        """The sampler, the Cells that score and the KL controller."""
        self.policy_logp, self.reference_logp = TargetLogProbs(self.policy), TargetLogProbs(self.reference)
        self.kl = self.kl_control()
        self.sampler = GeneratorPool(self.policy, eos_ids=self.context.tokenizer.eos_ids)
        self.times = PhaseTimes()
        self._samples: list[dict[str, Any]] = []

    def kl_control(self) -> FixedKl | AdaptiveKl:
        """Who sets the weight of the KL in the reward."""
        return kl_controller(self.config.kl)

    @property
    @abstractmethod
    def trained(self) -> Mapping[str, tuple[nn.Cell, Learner]]:
        """Every model that learns, with its learner, by the name it has in checkpoints."""

    @property
    def total_steps(self) -> int:
        """Iterations of the whole budget."""
        return self.loader.steps(self.config.budget)

    @property
    def final_model(self) -> CausalLM:
        """The trained policy."""
        return self.policy

    # --- rollouts --------------------------------------------------------------------------------------------------

    def answer(self, *names: str | int) -> Rollout:
        """Answers to the next prompts of training, ``samples_per_prompt`` to each, one behind the other.

        Args:
            names: purpose of the sampling noise, e.g. ``("rollout", iteration)``.
        """
        prompts = self.loader.next()
        repeated = {name: np.repeat(array, self.config.samples_per_prompt, axis=0) for name, array in prompts.items()}
        return self.roll_out(repeated, self.prompts, self.context.generator(*names))

    def roll_out(self, prompts: Batch, table: PromptRows, generator: np.random.Generator) -> Rollout:
        """Sample one answer to each prompt.

        Args:
            prompts: a batch of ``table``.
            table: has the prompts' texts.
            generator: the sampling noise.
        """
        return roll_out(
            self.sampler,
            self.context.tokenizer,
            prompts,
            table,
            response_len=self.config.response_len,
            temperature=self.config.temperature,
            generator=generator,
        )

    def log_probs(self, cell: TargetLogProbs, rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
        """What a model says of the answers, at the rollout's temperature and in the graph that trains.

        Args:
            cell: the model's log-probabilities.
            rollout: prompts and answers.

        Returns:
            Log-probability of each answer token and entropy before it, float32 (B, R), in nats.
        """
        labels_BR = rollout.response_BR
        inputs = (*rollout.inputs().values(), rollout.states(len(labels_BR)), labels_BR.reshape(-1))
        temperature = Tensor(np.float32(self.config.temperature))
        logp, entropy = cell(*(Tensor(array) for array in inputs), temperature)
        return logp.asnumpy().reshape(labels_BR.shape), entropy.asnumpy().reshape(labels_BR.shape)

    def check_ceiling(self, kl: float) -> None:
        """Halt a run whose policy is too far from the reference.

        Args:
            kl: mean KL of an answer, in nats.

        Raises:
            RunHalted: it passed ``kl.ceiling``.
        """
        if kl > self.config.kl.ceiling:
            raise RunHalted(
                f"stages.{self.context.name}.kl.ceiling: the answers are {kl:.1f} nats from the reference, more than "
                f"{self.config.kl.ceiling:g}. Raise kl.beta, lower optim.lr or epochs, or raise the ceiling."
            )

    # --- evaluation ------------------------------------------------------------------------------------------------

    def evaluate(self) -> dict[str, float]:
        """Score, yardsticks, KL and lengths of answers to prompts never trained on, always with the same noise."""
        judged = judge(
            self.eval_batches,
            lambda number, batch: self.roll_out(batch, self.eval_prompts, self.context.generator("evaluate", number)),
            {"score": self.reward, **self.yardsticks},
            self._distance,
        )
        self._samples, means = judged.samples, judged.means
        return {
            "eval/score": means.pop("score"),
            "eval/kl_policy_ref": means.pop("kl"),
            "eval/response_tokens": means.pop("length"),
            "eval/finished_ratio": means.pop("finished"),
            "eval/prompts": float(judged.num_prompts),
        } | {f"eval/{name}": value for name, value in means.items()}

    def samples(self) -> list[dict[str, Any]]:
        """Prompts and answers of the last evaluation."""
        return self._samples

    def _distance(self, rollout: Rollout) -> dict[str, np.ndarray]:
        """KL of each answer to the reference."""
        (logp, _), (ref_logp, _) = (self.log_probs(cell, rollout) for cell in (self.policy_logp, self.reference_logp))
        return {"kl": sequence_kl(logp, ref_logp, rollout.mask_BR)}

    # --- state -----------------------------------------------------------------------------------------------------

    def state(self) -> StageState:
        """What is trained, its optimizers, data position and beta."""
        trained = self.trained
        return StageState(
            params={
                f"{part}.{name}": array
                for part, (model, _) in trained.items()
                for name, array in export_arrays(model, trained_only=True).items()
            },
            optimizer={f"{part}.{n}": a for part, (_, learner) in trained.items() for n, a in learner.state().items()},
            trainer={"loader": self.loader.state(), "kl": self.kl.state()},
        )

    def restore(self, state: StageState) -> None:
        """Put a ``state`` back.

        Args:
            state: what ``state()`` gave.
        """
        for part, (model, learner) in self.trained.items():
            import_arrays(model, _part(state.params, part), source=f"checkpoint ({part})", trained_only=True)
            learner.restore(_part(state.optimizer, part))
        self.loader.restore(state.trainer["loader"])
        self.kl.restore(state.trainer["kl"])


def _part(arrays: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
