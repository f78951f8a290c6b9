"""What pretraining and SFT share: packed rows in, next-token loss down, perplexity and samples out."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, cast

import numpy as np
from mindspore import Tensor, nn

from llmstack.config.data import SourceConfig
from llmstack.config.stages import RowStageConfig
from llmstack.data.loader import EvalBatches
from llmstack.data.packed_rows import PackedRows
from llmstack.data.row_tables import Batch
from llmstack.data.stage_data import evaluation_parts_of
from llmstack.engine.protocol import StepReport
from llmstack.generation.pool import GeneratorPool
from llmstack.optim.updater import UpdateReport
from llmstack.runtime.logging import get_logger
from llmstack.stages.learner import Learner
from llmstack.stages.objectives import LanguageObjective
from llmstack.stages.scoring import TargetLogProbs
from llmstack.stages.single import SingleModelStage


class TargetInputs:
    """Turns a batch of rows into the inputs of :class:`LanguageObjective`, whose number of targets is fixed.

    Args:
        rows: everything that will be served; its fullest rows set the number of targets C of a batch.
        batch_rows: rows B of a batch.
    """

    def __init__(self, rows: PackedRows, *, batch_rows: int) -> None:
        fullest = np.sort(rows.row_targets)[::-1]
        most = int(fullest[np.arange(batch_rows) % len(fullest)].sum())
        # a multiple of 64 keeps the head's matrix product on whole tiles
        self.num_targets = min(-(-most // 64) * 64, batch_rows * rows.seq_len)

    def __call__(self, batch: Batch) -> Batch:
        """Pick the trained positions.

        Args:
            batch: ``tokens, positions, segments, labels, loss_mask`` (B, T).

        Returns:
            ``tokens, positions, segments`` (B, T) and ``targets, labels, mask`` (C,), in the objective's order.
        """
        trained = np.flatnonzero(batch["loss_mask"])
        targets = np.zeros(self.num_targets, np.int32)
        mask = np.zeros(self.num_targets, np.float32)
        targets[: len(trained)] = trained
        mask[: len(trained)] = batch["loss_mask"].reshape(-1)[trained]
        inputs = {name: batch[name] for name in ("tokens", "positions", "segments")}
        return inputs | {"targets": targets, "labels": batch["labels"].reshape(-1)[targets], "mask": mask}


class LanguageStage(SingleModelStage):
    """Base of the stages that train a language model on packed rows."""

    config: RowStageConfig

    def build_models(self) -> None:
        """The model, random or from ``init_from``."""
        self.model = self.to_train(self.language_model(self.config.init_from, "model"), "model")

    def build_loader(self) -> None:
        """Training rows and evaluation rows; the sources of a ``concat`` are evaluated each on its own as well."""
        config = self.config
        self.loader = self.make_loader(self.rows)
        self.inputs = TargetInputs(cast(PackedRows, self.loader.rows), batch_rows=config.batch_rows)
        parts = {name: self.rows(source) for name, source in evaluation_parts_of(config).items()}
        # one number of targets for all parts, so that they share a graph
        self.eval_inputs = TargetInputs(PackedRows.join(list(parts.values())), batch_rows=config.batch_rows)
        self.eval_batches = {
            name: EvalBatches(rows, batch_rows=config.batch_rows, limit=config.eval_batches)
            for name, rows in parts.items()
        }

    def build_loss(self) -> None:
        """Next-token loss, its optimizer and the Cells that evaluate."""
        self.learner = Learner(
            self.objective(),
            self.model,
            self.config.optim,
            accumulate=self.config.accumulate,
            noise_seed=self.context.derived_seed("dropout"),
        )
        self.scorer = TargetLogProbs(self.model)
        self._samples: list[dict[str, Any]] = []
        self._prompts = self._that_fit(self.sample_prompts(self.config.samples.prompts))
        self.sampler = GeneratorPool(self.model, eos_ids=self.context.tokenizer.eos_ids)

    def objective(self) -> nn.Cell:
        """What is descended, with the inputs of :class:`LanguageObjective`; override it for a loss of your own."""
        return LanguageObjective(self.model, z_loss=self.config.z_loss)

    def measured(self, report: UpdateReport) -> dict[str, float]:
        """Metrics of a step besides the loss; override it together with ``objective``.

        Args:
            report: what the step did; ``metrics`` are the objective's, in its order.
        """
        return {}

    @abstractmethod
    def rows(self, source: SourceConfig) -> PackedRows:
        """Encode a data option.

        Args:
            source: ``data``, one of its parts, or ``eval_data``.
        """

    def weigh(self, batch: Batch) -> Batch:
        """Change a batch of rows before it is used, in training and evaluation alike; override it for own loss weights.

        Args:
            batch: ``tokens, labels, positions, segments, loss_mask`` (B, T). Zeros of ``loss_mask`` must stay zeros.

        Returns:
            The batch.
        """
        return batch

    @abstractmethod
    def sample_prompts(self, count: int) -> list[list[int]]:
        """Token ids of prompts whose answers are kept at each evaluation.

        Args:
            count: how many.
        """

    def step(self, index: int) -> StepReport:
        """One optimizer step over ``accumulate`` micro-batches.

        Args:
            index: number of the step, from 1.
        """
        batches = [self.weigh(self.loader.next()) for _ in range(self.config.step_batches)]
        drawn = self.loader.drain()
        count = sum(float(batch["loss_mask"].sum()) for batch in batches)
        report = self.learner.update(count, [self.inputs(batch) for batch in batches], self.total_steps)
        tokens = sum(int((batch["segments"] > 0).sum()) for batch in batches)
        metrics = {
            "train/loss": report.loss,
            "train/grad_norm": report.grad_norm,
            "train/trained_tokens": count,
            **self.measured(report),
            **drawn.metrics,
        }
        gauges = {"train/lr": self.learner.lr, **drawn.gauges}
        return StepReport(metrics=metrics, tokens=tokens, gauges=gauges, skipped=not report.finite, rows=drawn.rows)

    def evaluate(self) -> dict[str, float]:
        """Mean loss and perplexity of the evaluation rows, of each part too; samples are drawn along the way."""
        sums = {name: self.summed_loss(batches, self.scorer) for name, batches in self.eval_batches.items()}
        self._draw_samples()
        total, count = (sum(values) for values in zip(*sums.values(), strict=True))
        metrics = _loss_metrics("eval", total, count)
        if len(sums) > 1:
            for name, (own, own_count) in sums.items():
                metrics |= _loss_metrics(f"eval/{name}", own, own_count)
        return metrics

    def summed_loss(self, batches: EvalBatches, scorer: TargetLogProbs) -> tuple[float, float]:
        """Loss of a model on evaluation rows.

        Args:
            batches: the rows.
            scorer: the model's log-probabilities.

        Returns:
            Its sum over trained tokens in nats, and their number.
        """
        total, count = 0.0, 0.0
        one = Tensor(1.0)
        for batch in batches:
            inputs = self.eval_inputs(self.weigh(batch))
            mask = inputs.pop("mask")
            logp, _ = scorer(*(Tensor(array) for array in inputs.values()), one)
            total -= float((logp.asnumpy().astype(np.float64) * mask).sum())
            count += float(mask.sum())
        return total, count

    def samples(self) -> list[dict[str, Any]]:
        """Prompts and answers of the last evaluation."""
        return self._samples

    def _that_fit(self, prompts: list[list[int]]) -> list[list[int]]:
        """The prompts that leave room for an answer: one that does not is no reason to stop training."""
        room = self.model.config.max_position_embeddings - self.config.samples.max_new_tokens
        fitting = [ids for ids in prompts if len(ids) <= room]
        if len(fitting) < len(prompts):
            get_logger("stages").warning(
                "stages.%s.samples: %d of %d prompts are left out, longer than the %d tokens that the context leaves "
                "beside max_new_tokens", self.context.name, len(prompts) - len(fitting), len(prompts), max(room, 0),
            )  # fmt: skip
        return fitting

    def _draw_samples(self) -> None:
        options, tokenizer = self.config.samples, self.context.tokenizer
        if not self._prompts:
            return
        answers = self.sampler.answer(
            self._prompts,
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature,
            rng=self.context.generator("samples"),
        )
        self._samples = [
            {"prompt": tokenizer.decode(ids), "response": tokenizer.decode(answer.tokens), "finished": answer.finished}
            for ids, (answer,) in zip(self._prompts, answers, strict=True)
        ]


def _loss_metrics(prefix: str, total: float, count: float) -> dict[str, float]:
    loss = total / max(count, 1.0)
    return {f"{prefix}/loss": loss, f"{prefix}/perplexity": math.exp(min(loss, 700.0))}
