"""``llmstack generate``: lets a trained model go on from prompts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmstack.engine.stop import Interrupts, end_at_once
from llmstack.errors import UserError

if TYPE_CHECKING:
    from llmstack.evaluation.answers import AnswerOptions, Written
    from llmstack.evaluation.questions import Asking, Question


def run(args: argparse.Namespace) -> int:
    """Prints the answers, one after the other, or writes them into a file.

    Args:
        args: the options of :func:`llmstack.cli.arguments.add_generate`.

    Returns:
        0.

    Raises:
        UserError: no model folder, a model that does not write, a tokenizer of another model, an empty prompt or one
            longer than the context, a file that cannot be read or written, or an option out of range.
    """
    from llmstack.evaluation.questions import Asking
    from llmstack.evaluation.report import check_output, write_rows

    questions, asking = asked(args), Asking(chat=args.chat, system=args.system)
    out = check_output(args.out, option="--out")
    with Interrupts.given_to(end_at_once):
        answers = _answers(args, questions, asking)
    if out is None:
        _print(answers)
    else:
        write_rows(out, [_row(question, found) for question, found in zip(questions, answers, strict=True)])
        sys.stdout.write(f"{sum(map(len, answers))} answers to {len(answers)} prompts in {out}\n")
    return 0


def _answers(args: argparse.Namespace, questions: Sequence[Question], asking: Asking) -> list[list[Written]]:
    from llmstack.runtime.device import setup

    setup(args.device, args.threads)
    from llmstack.evaluation.answers import Writer
    from llmstack.evaluation.loading import load_language_model

    options = answer_options(args)
    loaded = load_language_model(args.model_dir)
    prompts = [asking.ids(question, loaded.tokenizer) for question in questions]
    return Writer(loaded, options).write(prompts, wheres=[question.where for question in questions])


def asked(args: argparse.Namespace) -> list[Question]:
    """The prompts that were given.

    Args:
        args: with ``prompt`` or ``prompts``, and ``field``.

    Raises:
        UserError: an empty prompt, or a file without prompts.
    """
    from llmstack.data.files import is_jsonl
    from llmstack.evaluation.questions import questions_of, read_prompts

    if args.prompt is not None:
        if args.field:
            raise UserError("--field: expected --prompts FILE.jsonl with it, got --prompt. Remove --field.")
        return questions_of(args.prompt)
    if args.field and not is_jsonl(args.prompts):
        raise UserError(f"--field: expected a .jsonl file with it, got {args.prompts}. Remove --field.")
    return read_prompts(args.prompts, fields_of(args, ("prompt", "messages")))


def fields_of(args: argparse.Namespace, known: Sequence[str]) -> dict[str, str]:
    """How the user's file calls our fields.

    Args:
        args: with ``field``.
        known: our names.

    Raises:
        UserError: a name that is not ours.
    """
    for ours, name in args.field:
        if ours not in known:
            raise UserError(f"--field: expected one of {', '.join(known)} before '=', got {ours}={name}. Correct it.")
    return dict(args.field)


def answer_options(args: argparse.Namespace) -> AnswerOptions:
    """How answers are sampled.

    Args:
        args: the options of sampling, ``num_samples``, ``stop`` and ``batch_rows``.
    """
    from llmstack.evaluation.answers import AnswerOptions
    from llmstack.generation.rules import SamplingRules

    return AnswerOptions(
        max_new_tokens=args.max_new_tokens,
        temperature=args.temperature,
        num_samples=args.num_samples,
        seed=args.seed,
        rules=SamplingRules(args.repetition_penalty, args.top_k, args.top_p, args.min_p),
        stops=tuple(args.stop),
        batch_rows=args.batch_rows,
    )


def _print(answers: Sequence[Sequence[Written]]) -> None:
    for index, found in enumerate(answers, start=1):
        if len(answers) > 1:
            sys.stdout.write(f"=== prompt {index} of {len(answers)}\n")
        for number, answer in enumerate(found, start=1):
            if len(found) > 1:
                sys.stdout.write(f"--- {number} of {len(found)}\n")
            sys.stdout.write(answer.text + "\n")


def _row(question: Question, answers: Sequence[Written]) -> dict[str, object]:
    return {
        "prompt": question.as_json,
        "responses": [answer.text for answer in answers],
        "finished": [answer.finished for answer in answers],
        "num_tokens": [answer.num_tokens for answer in answers],
        "mean_logp": [answer.mean_logp for answer in answers],
    }
