"""Questions with one right answer: how often the model writes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmstack.evaluation.answers import AnswerOptions, Writer
from llmstack.evaluation.extract import Extractor
from llmstack.evaluation.loading import Loaded
from llmstack.evaluation.pass_at_k import pass_at_k, reported_ks
from llmstack.evaluation.questions import Asking, Question
from llmstack.evaluation.report import Report
from llmstack.models.causal_lm import CausalLM


def exact_match(
    loaded: Loaded[CausalLM],
    questions: Sequence[Question],
    options: AnswerOptions,
    *,
    asking: Asking,
    extractor: Extractor,
) -> Report:
    """Let the model answer and compare final answers.

    Args:
        loaded: the language model.
        questions: with answers.
        options: how answers are sampled.
        asking: how a question becomes a prompt.
        extractor: finds the final answer in what the model and in what the data says.

    Returns:
        ``questions, samples, accuracy`` (mean over all samples), ``pass@k`` for several samples, and the shares of
        answers that ended and that held a final answer; a row a question.

    Raises:
        UserError: a prompt that is too long or cannot be put to the model.
    """
    prompts = [asking.ids(question, loaded.tokenizer) for question in questions]
    answers = Writer(loaded, options).write(prompts, wheres=[question.where for question in questions])
    rows = []
    for question, written in zip(questions, answers, strict=True):
        known = extractor.known(question.answer or "")
        found = [extractor.find(answer.text) for answer in written]
        rows.append(
            {
                "where": question.where,
                "answer": known,
                "found": found,
                "right": [answer == known for answer in found],
                "responses": [answer.text for answer in written],
                "finished": [answer.finished for answer in written],
            }
        )
    return Report("exact-match", _numbers(rows, options.num_samples), rows)


def _numbers(rows: Sequence[dict[str, list]], num_samples: int) -> dict[str, int | float]:
    right = np.array([row["right"] for row in rows])
    numbers: dict[str, int | float] = {
        "questions": len(rows),
        "samples": num_samples,
        "accuracy": float(right.mean()),
    }
    if num_samples > 1:
        for k in reported_ks(num_samples):
            numbers[f"pass@{k}"] = float(np.mean([pass_at_k(num_samples, int(c), k) for c in right.sum(axis=1)]))
    numbers["finished_ratio"] = float(np.mean([row["finished"] for row in rows]))
    numbers["answered_ratio"] = float(np.mean([[found is not None for found in row["found"]] for row in rows]))
    return numbers
