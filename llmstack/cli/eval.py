"""``llmstack eval``: numbers that say how good a model is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from llmstack.cli.generate import answer_options, fields_of
from llmstack.engine.stop import Interrupts, end_at_once
from llmstack.runtime.device import setup

if TYPE_CHECKING:
    from llmstack.evaluation.report import Report

T = TypeVar("T")


def run(args: argparse.Namespace) -> int:
    """Measures and prints a small table.

    Args:
        args: the options of :func:`llmstack.cli.arguments.add_eval`.

    Returns:
        0.

    Raises:
        UserError: a model folder, a file, a row or an option that does not fit.
    """
    from llmstack.evaluation.report import check_output

    numbers, rows = check_output(args.json, option="--json"), check_output(args.rows, option="--rows")
    with Interrupts.given_to(end_at_once):
        setup(args.device, args.threads)
        report = _KINDS[args.kind](args)
    report.write(numbers=numbers, rows=rows, about={"model": args.model_dir, "data": args.data})
    sys.stdout.write(report.table())
    return 0


def _first(items: Sequence[T], args: argparse.Namespace) -> Sequence[T]:
    return items[: args.limit]


def _perplexity(args: argparse.Namespace) -> Report:
    from llmstack.evaluation.loading import load_language_model
    from llmstack.evaluation.perplexity import PerplexityOptions, perplexity, read_texts

    texts = read_texts(args.data, fields_of(args, ("text",)), by_blank_line=args.split == "blank-line")
    options = PerplexityOptions(args.window, args.stride, args.count_end)
    return perplexity(load_language_model(args.model_dir), _first(texts, args), options)


def _exact_match(args: argparse.Namespace) -> Report:
    from llmstack.evaluation.exact_match import exact_match
    from llmstack.evaluation.extract import Extractor
    from llmstack.evaluation.loading import load_language_model
    from llmstack.evaluation.questions import Asking, read_questions

    if args.temperature is None:
        args.temperature = 0.0 if args.num_samples == 1 else 1.0
    extractor, options = Extractor(args.extract), answer_options(args)
    questions = read_questions(args.data, fields_of(args, ("prompt", "messages", "answer")), needs_answer=True)
    return exact_match(
        load_language_model(args.model_dir),
        _first(questions, args),
        options,
        asking=Asking(chat=args.chat, system=args.system),
        extractor=extractor,
    )


def _choice(args: argparse.Namespace) -> Report:
    from llmstack.evaluation.choice import choice_accuracy, read_choices
    from llmstack.evaluation.loading import load_language_model

    records = read_choices(args.data, fields_of(args, ("prompt", "choices", "answer")))
    loaded = load_language_model(args.model_dir)
    return choice_accuracy(loaded, _first(records, args), chat=args.chat, delimiter=args.delimiter)


def _reward(args: argparse.Namespace) -> Report:
    from llmstack.evaluation.loading import load_reward_model
    from llmstack.evaluation.preference import preference_accuracy, read_pairs

    pairs = read_pairs(args.data, fields_of(args, ("prompt", "chosen", "rejected")))
    return preference_accuracy(load_reward_model(args.model_dir), _first(pairs, args))


_KINDS: dict[str, Callable[[argparse.Namespace], Report]] = {
    "perplexity": _perplexity,
    "exact-match": _exact_match,
    "choice": _choice,
    "reward": _reward,
}
