"""Reward model: which of two answers is the better."""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np
from mindspore import Tensor

from llmstack.config.data import SourceConfig
from llmstack.config.stages import RewardConfig
from llmstack.data.bucket_rows import PreferenceRows
from llmstack.data.loader import EvalBatches
from llmstack.engine.protocol import StepReport
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
        self.eval_batches = EvalBatches(
            self.rows(self.config.eval_data), batch_rows=self.config.batch_rows, limit=self.config.eval_batches
        )

    def rows(self, source: SourceConfig) -> PreferenceRows:
        """Pairs, padded.

        Args:
            source: a data option whose records are preferences.
        """
        return cast(PreferenceRows, self.context.corpus.rows(self.config, source))

    def build_loss(self) -> None:
        """Pairwise loss, its optimizer and the Cell that scores."""
        objective = PairObjective(self.model, centering=self.config.centering)
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
        """Accuracy (a tie counts half), loss and mean margin on the evaluation pairs."""
        chosen, rejected = [], []
        for batch in self.eval_batches:
            score = self.scorer(*(Tensor(batch[name]) for name in _INPUTS[:4])).asnumpy()
            real = batch["weight"] > 0
            half = len(real)
            chosen.append(score[:half][real])
            rejected.append(score[half:][real])
        lead = np.concatenate(chosen).astype(np.float64) - np.concatenate(rejected)
        return {
            "eval/accuracy": float(np.mean((lead > 0) + 0.5 * (lead == 0))),
            "eval/loss": float(np.mean(np.logaddexp(0.0, -lead))),
            "eval/margin": float(lead.mean()),
            "eval/score_chosen": float(np.concatenate(chosen).mean()),
        }
