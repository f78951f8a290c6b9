"""Scores of the steps of an answer, each at the token that ends its step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llmstack.config.rewards import StepsRewardConfig
from llmstack.errors import UserError
from llmstack.plugins import load_function
from llmstack.rewards.steps import StepBatch, step_spans, token_at
from llmstack.rl.rewards_api import FirstScores, Scores, call, none_scored, number
from llmstack.stages.base import Stage
from llmstack.stages.online.rewards import StageReward
from llmstack.stages.online.rollout import Rollout


class StepsReward(StageReward):
    """A function scores the steps of an answer (a process reward); an answer without a step is not scored.

    Args:
        config: names the function and how answers are cut.
        stage: the stage that asks; its tokenizer says where steps end.
        path: where the options stand in the recipe.

    Raises:
        UserError: the function cannot be imported.
    """

    def __init__(self, config: StepsRewardConfig, stage: Stage, path: str) -> None:
        self._config, self._path, self._tokenizer = config, path, stage.context.tokenizer
        self._function, self._first = load_function(config.function), FirstScores()

    def score(self, rollout: Rollout) -> Scores:
        """One score an answer, earned step by step.

        Args:
            rollout: prompts and answers.

        Raises:
            UserError: the function failed or returned something else than a number a step, or scored nothing.
        """
        texts = rollout.texts
        spans = [self._spans(text) for text in texts.responses]
        batch = StepBatch(
            prompts=texts.prompts,
            steps=[
                [text[start:end] for start, end in found] for text, found in zip(texts.responses, spans, strict=True)
            ],
            answers=texts.answers,
        )
        result = call(lambda steps: self._function(steps, **self._config.arguments), batch, path=self._path)
        self._check_length(result, len(batch), "one list of scores for each response")
        token_score_BR = np.zeros(rollout.mask_BR.shape, np.float32)
        scored_B = np.zeros(len(batch), bool)
        for row, (found, steps) in enumerate(zip(result, batch.steps, strict=True)):
            values = self._values(found, len(steps), row)
            scored_B[row] = len(steps) > 0 and not np.isnan(values).any()
            if scored_B[row]:
                self._place(token_score_BR[row], values, spans[row], self._ids(rollout, row))
        self._first.note(scored_B, lambda: none_scored(texts, self._path))
        steps_mean = float(np.mean([len(steps) for steps in batch.steps]))
        return Scores(token_score_BR.sum(axis=1), scored_B, token_score_BR, {"reward/steps": steps_mean})

    def _spans(self, text: str) -> list[tuple[int, int]]:
        try:
            return step_spans(text, self._config.split)
        except TimeoutError:
            return []

    def _values(self, found: Any, num_steps: int, row: int) -> np.ndarray:
        """Scores of an answer's steps; NaN for those without."""
        if found is None:
            return np.full(max(num_steps, 1), np.nan)
        self._check_length(found, num_steps, f"a number for each step of response {row}")
        return np.array([number(item, f"step {at} of score {row}", self._path) for at, item in enumerate(found)])

    def _check_length(self, result: Any, wanted: int, what: str) -> None:
        is_list = isinstance(result, Sequence | np.ndarray) and not isinstance(result, str | bytes)
        got = len(result) if is_list else type(result).__name__
        if got != wanted:
            raise UserError(f"{self._path}: expected {what} ({wanted}), got {got}. Return None for what has no score.")

    @staticmethod
    def _ids(rollout: Rollout, row: int) -> list[int]:
        ids: list[int] = rollout.response_BR[row, : int(rollout.mask_BR[row].sum())].tolist()
        return ids

    def _place(self, row_R: np.ndarray, values: np.ndarray, spans: list[tuple[int, int]], ids: list[int]) -> None:
        share = 1.0 / len(values) if self._config.aggregate == "mean" else 1.0
        for value, (_, end) in zip(values, spans, strict=True):
            row_R[token_at(ids, self._tokenizer.decode, end)] += value * share
