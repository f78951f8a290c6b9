"""Reward model: which of two answers is the better."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, cast

import numpy as np
from mindspore import Tensor

from llmstack.config.data import SourceConfig
from llmstack.config.stages import RewardConfig
from llmstack.data.answer_rows import PreferenceRows
from llmstack.data.loader import EvalBatches
from llmstack.engine.protocol import StepReport
from llmstack.models.score_statistics import measure, write_statistics
from llmstack.rl.preference_stats import ScoredPairs, preference_stats
from llmstack.stages.learner import Learner
from llmstack.stages.objectives import PairObjective
from llmstack.stages.scoring import LastScores
from llmstack.stages.single import SingleModelStage

_INPUTS = ("tokens", "positions", "segments", "last", "margin")


class RewardStage(SingleModelStage):
    """A scalar model trained on preference pairs (Bradley-Terry)."""

    kind: ClassVar[str] = "reward"
    config: RewardConfig

    def build_models(self) -> None:
        """The scalar model, on the trunk of ``init_from``."""
        self.model = self.to_train(self.scalar_model(self.config.init_from, "model"), "model")

    def build_loader(self) -> None:
        """Training and evaluation pairs."""
        self.loader = self.make_loader(self.rows)
        rows, config = self.rows(self.config.eval_data), self.config
        self.eval_batches = EvalBatches(rows, batch_rows=config.batch_rows, limit=config.eval_batches)
        measured = range(min(len(rows), config.batch_rows * config.eval_batches))
        self.eval_lengths = np.array([[int(mask.sum()) for mask in rows.answer_masks(row)] for row in measured])

    def rows(self, source: SourceConfig) -> PreferenceRows:
        """Pairs, padded.

        Args:
            source: a data option whose records are preferences.
        """
        return cast(PreferenceRows, self.context.corpus.rows(self.config, source))

    def build_loss(self) -> None:
        """Pairwise loss, its optimizer and the Cell that scores."""
        objective = PairObjective(
            self.model, centering=self.config.centering, label_smoothing=self.config.label_smoothing
        )
        self.learner = Learner(
            objective,
            self.model,
            self.config.optim,
            accumulate=self.config.accumulate,
            noise_seed=self.context.derived_seed("dropout"),
        )
        self.scorer = LastScores(self.model)

    def step(self, index: int) -> StepReport:
        """One optimizer step over ``accumulate`` micro-batches of pairs.

        Args:
            index: number of the step, from 1.
        """
        batches = [self.loader.next() for _ in range(self.config.step_batches)]
        drawn = self.loader.drain()
        count = float(sum(len(batch["margin"]) for batch in batches))
        inputs = [{name: batch[name] for name in _INPUTS} for batch in batches]
        report = self.learner.update(count, inputs, self.total_steps)
        metrics = {
            "train/loss": report.loss,
            "train/accuracy": report.metrics[0],
            "train/grad_norm": report.grad_norm,
            **drawn.metrics,
        }
        tokens = sum(int((batch["segments"] > 0).sum()) for batch in batches)
        return StepReport(
            metrics=metrics,
            tokens=tokens,
            gauges={"train/lr": self.learner.lr, **drawn.gauges},
            skipped=not report.finite,
            shown=("train/loss", "train/accuracy"),
            rows=drawn.rows,
        )

    def evaluate(self) -> dict[str, float]:
        """Loss on the evaluation pairs, and all that :func:`llmstack.rl.preference_stats.preference_stats` gives."""
        pairs = self._scored_pairs()
        stats = preference_stats(pairs) | {"loss": float(np.mean(np.logaddexp(0.0, -pairs.lead_N)))}
        return {f"eval/{name}": value for name, value in stats.items()}

    def save_final(self, folder: Path) -> None:
        """Write the reward model with the mean and deviation of its scores of the evaluation answers.

        Args:
            folder: an existing empty folder.
        """
        super().save_final(folder)
        write_statistics(folder, measure(self._scored_pairs().all_scores))

    def _scored_pairs(self) -> ScoredPairs:
        chosen, rejected = [], []
        for batch in self.eval_batches:
            score = self.scorer(*(Tensor(batch[name]) for name in _INPUTS[:4])).asnumpy()
            real = batch["weight"] > 0
            half = len(real)
            chosen.append(score[:half][real])
            rejected.append(score[half:][real])
        return ScoredPairs(np.concatenate(chosen), np.concatenate(rejected), *self.eval_lengths.T)
