"""Offline preference learning: a policy from answers that were compared or judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from mindspore import Tensor

from llmstack.config.data import SourceConfig
from llmstack.config.preference import PreferenceConfig
from llmstack.data.answer_rows import AnswerRows, LabelledRows
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.encode import Kind
from llmstack.data.loader import EvalBatches
from llmstack.data.row_tables import Batch
from llmstack.data.stage_data import parts_of
from llmstack.engine.protocol import StepReport
from llmstack.generation.pool import GeneratorPool
from llmstack.models.causal_lm import CausalLM
from llmstack.registry import PREFERENCE_LOSSES
from llmstack.stages.learner import Learner
from llmstack.stages.online.judge import judge
from llmstack.stages.online.rewards import make_reward
from llmstack.stages.online.rollout import Rollout, roll_out
from llmstack.stages.preference.answers import AnswerScorer, Scored, cached_scores, weights_hash
from llmstack.stages.preference.measures import Sums, baseline_of, measures
from llmstack.stages.preference.objective import AnswerLogProbs, PreferenceObjective
from llmstack.stages.preference.samples import prompt_table
from llmstack.stages.single import SingleModelStage

_SAMPLE_ROWS = 64
"""Prompts answered at once, at most."""


class PreferenceStage(SingleModelStage):
    """A language model trained on preferences (DPO and its relatives)."""

    kind: ClassVar[str] = "preference"
    config: PreferenceConfig
    model: CausalLM

    def build_models(self) -> None:
        """The policy, and the yardsticks with their models."""
        config, path = self.config, f"stages.{self.context.name}"
        self.model = self.to_train(self.language_model(config.init_from, "model"), "model")
        self.yardsticks = {
            name: make_reward(options, self, f"{path}.yardsticks.{name}") for name, options in config.yardsticks.items()
        }

    def build_loader(self) -> None:
        """Training answers, evaluation answers, and the prompts of the samples."""
        config, context = self.config, self.context
        self.loader = self.make_loader(self.rows)
        self.train_rows = cast(AnswerRows, self.loader.rows)
        self.eval_rows = self.rows(config.eval_data)
        self.num_eval = min(len(self.eval_rows), config.eval_batches * config.batch_rows)
        self.scorer = AnswerScorer(self.train_rows, batch_rows=config.batch_rows)
        self.eval_scorer = AnswerScorer(self.eval_rows, batch_rows=config.batch_rows)
        self.sample_prompts = prompt_table(
            context.corpus.records(config.sample_data or config.eval_data),
            context.tokenizer,
            count=config.samples.prompts,
            longest=self.model.config.max_position_embeddings - config.samples.max_new_tokens,
            path=f"stages.{context.name}.samples",
        )

    def rows(self, source: SourceConfig) -> AnswerRows:
        """Pairs, or single answers, as the loss takes them.

        Args:
            source: a data option whose records are preferences or, for a loss of single answers, labelled answers.
        """
        return cast(AnswerRows, self.context.corpus.rows(self.config, source))

    def build_loss(self) -> None:
        """The loss, its optimizer, the Cell that scores, and what the reference says of all answers."""
        config = self.config
        self.loss = PREFERENCE_LOSSES.get(config.loss.name)(config.loss)
        self.learner = Learner(
            PreferenceObjective(self.model, self.loss),
            self.model,
            config.optim,
            accumulate=config.accumulate,
            noise_seed=self.context.derived_seed("dropout"),
        )
        self.logp = AnswerLogProbs(self.model)
        self.sampler = GeneratorPool(self.model, eos_ids=self.context.tokenizer.eos_ids)
        self._samples: list[dict[str, Any]] = []
        training = list(parts_of(config.data).values())
        self.reference = self._reference(self.train_rows, self.scorer, training, len(self.train_rows))
        self.eval_reference = self._reference(self.eval_rows, self.eval_scorer, [config.eval_data], self.num_eval)

    # --- the reference ---------------------------------------------------------------------------------------------

    def _reference(self, rows: AnswerRows, scorer: AnswerScorer, sources: Sequence[SourceConfig], count: int) -> Scored:
        """What the reference says of the first ``count`` samples; zeros when the loss has none."""
        config, context = self.config, self.context
        source = config.reference_source
        if source is None:
            return Scored(np.zeros((count, len(rows.sides)), np.float32), np.zeros(0, np.float32))
        encoding: Kind = "pairs" if config.loss.paired else "labelled"
        key = {
            "weights": weights_hash(context.inputs[source]),
            "provider": context.model.provider,
            "data": [context.corpus.key(part, encoding) for part in sources],
            "rows": [count, config.seq_len, list(rows.buckets), config.batch_rows],
            "lengths": [int(rows.row_tokens.sum()), int(rows.row_answers.sum())],
        }
        return cached_scores(key, lambda: scorer.score(self._reference_cell(source), count))

    def _reference_cell(self, source: str) -> AnswerLogProbs:
        """The reference's log-probabilities. Asked before the first step, when the policy still is ``init_from``."""
        lora = self.config.lora
        if source == self.config.init_from and (lora is None or lora.adapter is None):
            return self.logp
        return AnswerLogProbs(self.language_model(source, "reference"))

    # --- training --------------------------------------------------------------------------------------------------

    def step(self, index: int) -> StepReport:
        """One optimizer step over ``accumulate`` micro-batches of pairs, or of single answers.

        Args:
            index: number of the step, from 1.
        """
        batches, samples = [], []
        for _ in range(self.config.step_batches):
            batches.append(self.loader.next())
            samples.append(self.loader.sample_ids)
        drawn = self.loader.drain()
        baseline = self._baseline(samples)
        inputs = [self._inputs(batch, ids, baseline) for batch, ids in zip(batches, samples, strict=True)]
        count = float(sum(map(len, samples)))
        report = self.learner.update(count, inputs, self.total_steps)
        sums = Sums(*(value * max(count, 1.0) for value in (report.loss, *report.metrics)))
        good = np.concatenate([batch["good"] for batch in inputs])
        metrics = {f"train/{name}": value for name, value in self._measures(sums, good, baseline).items()}
        return StepReport(
            metrics={**metrics, "train/grad_norm": report.grad_norm, **drawn.metrics},
            tokens=sum(int((batch["segments"] > 0).sum()) for batch in batches),
            gauges={"train/lr": self.learner.lr, **drawn.gauges},
            skipped=not report.finite,
            shown=("train/loss", "train/accuracy"),
            rows=drawn.rows,
        )

    def _inputs(self, batch: Batch, samples: np.ndarray, baseline: float) -> Batch:
        return self.scorer.inputs(batch) | {
            "ref_logp": self.reference.logp[samples].T.reshape(-1),
            "answer_tokens": batch["answer"].astype(np.float32),
            "good": self.train_rows.good(samples),
            "baseline": np.float32(baseline),
        }

    def _measures(self, sums: Sums, good: np.ndarray, baseline: float) -> dict[str, float]:
        num_good, paired = float(good.sum()), self.config.loss.paired
        found = measures(
            sums,
            count=num_good if paired else float(len(good)),
            num_good=num_good,
            num_bad=float(len(good)) - num_good,
            has_reference=self.config.loss.needs_reference,
        )
        return found if paired else found | {"baseline": baseline}

    def _baseline(self, samples: Sequence[np.ndarray]) -> float:
        """KTO's z0 over all micro-batches of a step, so that it does not depend on how the step is cut."""
        if not isinstance(self.train_rows, LabelledRows):
            return 0.0
        ratios = [
            self.scorer.mismatched(self.logp, self.train_rows.mismatched(ids)).asnumpy().astype(np.float64)
            - self.reference.mismatched[ids]
            for ids in samples
        ]
        return baseline_of(np.concatenate(ratios))

    # --- evaluation ------------------------------------------------------------------------------------------------

    def evaluate(self) -> dict[str, float]:
        """The same measures on answers never trained on, and yardsticks of sampled answers."""
        rows, ref, samples = self.eval_rows, self.eval_reference, np.arange(self.num_eval)
        scored = self.eval_scorer.score(self.logp, self.num_eval)
        baseline = baseline_of(scored.mismatched.astype(np.float64) - ref.mismatched)
        logp, ref_logp, good = scored.logp.T.reshape(-1), ref.logp.T.reshape(-1), rows.good(samples)
        tokens = rows.answer_tokens(samples).astype(np.float32)
        inputs = (logp, ref_logp, tokens, good, np.float32(baseline))
        total, right, reward = (out.asnumpy().astype(np.float64) for out in self.loss(*map(Tensor, inputs)))
        sums = Sums(
            loss=float(total),
            right=float(right),
            reward_good=float((reward * good).sum()),
            reward_bad=float((reward * (1.0 - good)).sum()),
            logp_good=float((logp.astype(np.float64) * good).sum()),
            logp_bad=float((logp.astype(np.float64) * (1.0 - good)).sum()),
            drift=float((logp.astype(np.float64) - ref_logp).sum()),
        )
        found = self._measures(sums, good, baseline) | self._judge_samples()
        return {f"eval/{name}": value for name, value in found.items()}

    def samples(self) -> list[dict[str, Any]]:
        """Prompts and answers of the last evaluation."""
        return self._samples

    def _judge_samples(self) -> dict[str, float]:
        """Answers to the sample prompts, always with the same noise, and what the yardsticks say of them."""
        if self.sample_prompts is None:
            return {}
        table = self.sample_prompts
        num_batches = -(-len(table) // _SAMPLE_ROWS)
        judged = judge(
            EvalBatches(table, batch_rows=-(-len(table) // num_batches)),
            lambda number, batch: self._roll_out(number, batch, table),
            self.yardsticks,
        )
        self._samples, means = judged.samples, judged.means
        names = {"length": "response_tokens", "finished": "finished_ratio"}
        return {"prompts": float(judged.num_prompts)} | {names.get(name, name): mean for name, mean in means.items()}

    def _roll_out(self, number: int, batch: Batch, table: PromptRows) -> Rollout:
        options = self.config.samples
        return roll_out(
            self.sampler,
            self.context.tokenizer,
            batch,
            table,
            response_len=options.max_new_tokens,
            temperature=options.temperature,
            generator=self.context.generator("samples", number),
        )
