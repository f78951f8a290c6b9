"""The options of ``plan`` and of the commands that use a model: ``generate``, ``chat`` and ``eval``."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import Any

Command = argparse.ArgumentParser

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}


def add_plan(command: Command) -> None:
    """Options of ``llmstack plan``.

    Args:
        command: gets them.
    """
    command.add_argument("--devices", type=positive, metavar="N", help="devices to plan for (default: the recipe's)")
    command.add_argument("--hardware", metavar="NAME", help="kind of device, e.g. ascend_910b (default: the recipe's)")
    command.add_argument("--stage", metavar="NAME", help="plan this stage alone")
    command.add_argument("--json", action="store_true", help="print JSON: bytes, seconds and FLOPs as numbers")


def add_generate(command: Command) -> None:
    """Options of ``llmstack generate``.

    Args:
        command: gets them.
    """
    _add_model(command)
    prompts = command.add_mutually_exclusive_group(required=True)
    prompts.add_argument("--prompt", action="append", metavar="TEXT", help="what to go on from; may be repeated")
    prompts.add_argument(
        "--prompts", metavar="FILE", help="a text file with a prompt on each line, or .jsonl with prompt or messages"
    )
    _add_chat_template(command)
    add_fields(command)
    add_sampling(command, temperature=1.0, max_new_tokens=64)
    _add_many(command, samples="answers to each prompt (default 1)")
    command.add_argument(
        "--out", metavar="FILE.jsonl", help="write one object a prompt into this file instead of printing the answers"
    )
    _add_device(command)


def add_chat(command: Command) -> None:
    """Options of ``llmstack chat``.

    Args:
        command: gets them.
    """
    _add_model(command)
    command.add_argument("--system", metavar="TEXT", help="a system message")
    add_sampling(command, temperature=0.7, max_new_tokens=512)
    _add_device(command)


def add_eval(command: Command) -> None:
    """Options of ``llmstack eval``, by kind.

    Args:
        command: gets a command of its own for each kind.
    """
    kinds = command.add_subparsers(title="kinds", metavar="KIND", dest="kind", required=True)
    text = _kind(
        kinds,
        "perplexity",
        "how well texts are predicted",
        "exp of the mean negative log-likelihood over all tokens of all documents; each document is on its own, and "
        "its first token is only read unless the tokenizer puts one in front. A document longer than the window is "
        "read in windows that move by the stride; each token counts once, in the first window that holds it.",
        "text files, or .jsonl with text",
    )
    text.add_argument("--split", choices=("file", "blank-line"), default="file", help="what ends a document of a text "
                      "file (default file)")  # fmt: skip
    text.add_argument("--window", type=positive, metavar="N", help="tokens seen at once (default: the model's context)")
    text.add_argument("--stride", type=positive, metavar="N", help="tokens a window moves (default: half a window)")
    text.add_argument("--count-end", action="store_true", help="count each document's end token too, as training does")
    match = _kind(
        kinds,
        "exact-match",
        "how often the right final answer is written",
        "The model answers; its final answer is compared with the data's. pass@k is the unbiased estimate of Chen et "
        "al. 2021 from the samples.",
        ".jsonl with prompt or messages, and answer",
    )
    _add_chat_template(match)
    match.add_argument(
        "--extract",
        metavar="REGEX",
        help="the final answer of a text: its last match, or group 1 of it (default: after ####, else the last number)",
    )
    add_sampling(match, temperature=None, max_new_tokens=256)
    _add_many(match, samples="answers to each question; several give pass@k (default 1)")
    choice = _kind(
        kinds,
        "choice",
        "how often the right choice is the likeliest",
        "Choices are compared by the sum of their tokens' log-probabilities after the prompt, by the mean a token and "
        "by the mean a byte.",
        ".jsonl with prompt, choices and answer (an index from 0)",
    )
    choice.add_argument("--chat", action="store_true", help="prompt and choice as turns of a conversation")
    choice.add_argument("--delimiter", default=" ", metavar="TEXT", help="between prompt and choice (default a space)")
    _kind(
        kinds,
        "reward",
        "how often a reward model prefers the better answer",
        "Both answers are scored; an equal score counts half.",
        ".jsonl with prompt, chosen and rejected",
    )


def _kind(kinds: Any, name: str, about: str, more: str, data: str) -> Command:
    command: Command = kinds.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}. {more}", allow_abbrev=False
    )
    _add_model(command)
    command.add_argument("--data", required=True, metavar="FILE", help=f"{data}; a file or a glob")
    add_fields(command)
    command.add_argument("--limit", type=positive, metavar="N", help="the first N only")
    command.add_argument("--json", metavar="OUT", help="write the numbers into this file")
    command.add_argument("--rows", metavar="OUT.jsonl", help="write what was found for each row into this file")
    _add_device(command)
    return command


def add_sampling(command: Command, *, temperature: float | None, max_new_tokens: int) -> None:
    """Options that say how a token is drawn.

    Args:
        command: gets them.
        temperature: the default; None: greedy for one answer, 1 for several.
        max_new_tokens: the default.
    """
    shown = "0 for one sample, 1 for several" if temperature is None else f"{temperature:g}"
    add = command.add_argument
    add("--temperature", type=not_negative, default=temperature, metavar="X", help=f"0 is greedy (default {shown})")
    add("--top-k", type=natural, default=0, metavar="N", help="keep the N likeliest tokens (default 0: all)")
    add("--top-p", type=share, default=1.0, metavar="P", help="of those the fewest that hold P (default 1: all)")
    add("--min-p", type=ratio, default=0.0, metavar="P", help="of those at least P times the best (default 0: all)")
    add(
        "--repetition-penalty",
        type=positive_number,
        default=1.0,
        metavar="X",
        help="divide positive logits of tokens already there by X, multiply negative ones (default 1: off)",
    )
    add(
        "--max-new-tokens",
        type=positive,
        default=max_new_tokens,
        metavar="N",
        help=f"longest answer (default {max_new_tokens})",
    )
    add("--seed", type=natural, default=0, metavar="N", help="seed of the sampling (default 0)")


def _add_model(command: Command) -> None:
    command.add_argument("model_dir", metavar="MODEL_DIR", help="a model folder, e.g. runs/quickstart/policy/final")


def _add_chat_template(command: Command) -> None:
    command.add_argument("--chat", action="store_true", help="put each prompt into the model's chat template")
    command.add_argument("--system", metavar="TEXT", help="a system message in front of it")


def add_fields(command: Command) -> None:
    """``--field OURS=NAME``.

    Args:
        command: gets it.
    """
    command.add_argument(
        "--field",
        type=field,
        action="append",
        default=[],
        metavar="OURS=NAME",
        help="our name of a field and the .jsonl file's, e.g. prompt=question; may be repeated",
    )


def _add_many(command: Command, *, samples: str) -> None:
    command.add_argument("--num-samples", type=positive, default=1, metavar="N", help=samples)
    command.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="an answer ends before TEXT; may be repeated"
    )
    command.add_argument(
        "--batch-rows", type=positive, default=32, metavar="N", help="answers written at once (default 32)"
    )


def _add_device(command: Command) -> None:
    command.add_argument("--device", choices=("cpu", "ascend"), default="cpu", help="where graphs run (default cpu)")
    command.add_argument("--threads", type=positive, metavar="N", help="CPU threads (default: all cores)")


def field(text: str) -> tuple[str, str]:
    """``OURS=NAME`` as a pair.

    Args:
        text: as typed.
    """
    ours, _, name = text.partition("=")
    if not ours or not name:
        raise argparse.ArgumentTypeError(f"expected OURS=NAME, got {text!r}")
    return ours, name


def num_bytes(text: str) -> int:
    """A size such as ``5GB`` as a number of bytes.

    Args:
        text: as typed.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(KB|MB|GB)", text.strip(), re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"expected a size such as 5GB, 500MB or 64KB, got {text!r}")
    return size


def _number(kind: Callable[[str], Any], fits: Callable[[Any], bool], expected: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not fits(value):
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text}")
        return value

    return convert


positive = _number(int, lambda n: n >= 1, "a whole number of at least 1")
natural = _number(int, lambda n: n >= 0, "a whole number of at least 0")
not_negative = _number(float, lambda x: 0 <= x < math.inf, "a number of at least 0")
positive_number = _number(float, lambda x: 0 < x < math.inf, "a number above 0")
share = _number(float, lambda x: 0 < x <= 1, "a number above 0 and at most 1")
ratio = _number(float, lambda x: 0 <= x <= 1, "a number from 0 to 1")
