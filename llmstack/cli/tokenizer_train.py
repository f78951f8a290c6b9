"""``llmstack tokenizer train``: learns a tokenizer from files of text and writes it as a folder."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from llmstack.cli.generate import fields_of
from llmstack.cli.model_folder import say
from llmstack.data.chat import CHATML
from llmstack.data.field_map import IN_A_RECIPE
from llmstack.data.files import read_text
from llmstack.data.tokenizer import Tokenizer
from llmstack.data.tokenizer_training import (
    HELD_OUT_EVERY,
    MIN_VOCAB_SIZE,
    TrainingTexts,
    bytes_per_token,
    check_template,
    train_tokenizer,
)
from llmstack.engine.stop import Interrupts, end_at_once
from llmstack.errors import DataError, UserError
from llmstack.models.new_folder import check_new, new_folder


def run(args: argparse.Namespace) -> int:
    """Checks everything that can be checked, learns, then writes the folder; it is there whole or not at all.

    Args:
        args: ``files``, ``out``, ``vocab_size``, ``field``, ``template``, ``limit_bytes`` (None: no limit).

    Returns:
        0.

    Raises:
        UserError: an option that does not fit, a file that cannot be read, or ``out`` is not empty.
    """
    started = time.perf_counter()
    out, fields = Path(args.out), fields_of(args, ("text",))
    check_new(out)
    if args.vocab_size < MIN_VOCAB_SIZE:
        raise UserError(f"--vocab-size: expected at least {MIN_VOCAB_SIZE}, got {args.vocab_size}. Raise it.")
    template = _template(args.template)
    try:
        texts = TrainingTexts(args.files, fields=fields, limit_bytes=args.limit_bytes)
        with Interrupts.given_to(end_at_once):
            tokenizer = _train(texts, args.vocab_size, template, args.limit_bytes)
    except DataError as error:
        raise DataError(_on_the_command_line(str(error))) from error
    with new_folder(out) as folder:
        tokenizer.save(folder)
    _report(tokenizer, texts)
    say("folder", f"{out} in {time.perf_counter() - started:.1f} seconds")
    return 0


def _template(option: str) -> str:
    if option == "chatml":
        return CHATML
    try:
        template = read_text(Path(option))
        check_template(template, where=option)
    except DataError as error:
        raise UserError(f"--template: expected chatml or a Jinja file. {error}") from error
    return template


def _train(texts: TrainingTexts, vocab_size: int, template: str, limit_bytes: int | None) -> Tokenizer:
    # shown on a terminal only
    with tqdm(desc="reading", total=limit_bytes, unit="B", unit_scale=True, leave=False, disable=None) as bar:

        def shown() -> Iterator[str]:
            for text in texts:
                yield text
                bar.update(texts.num_bytes - bar.n)
            bar.set_description("merging")

        return train_tokenizer(shown(), vocab_size, template)


def _on_the_command_line(message: str) -> str:
    """A message about a file's fields, with the fix as this command takes it."""
    if message.startswith("fields: "):
        message = f"--field: {message.removeprefix('fields: ')}"
    return message.replace(IN_A_RECIPE.format(ours="text"), "--field text=NAME")


def _report(tokenizer: Tokenizer, texts: TrainingTexts) -> None:
    files = f"{len(texts.files):,} file{'s' if len(texts.files) > 1 else ''}"
    say("learned on", f"{texts.num_texts:,} texts of {files}, {texts.num_bytes / 1e6:,.1f} MB")
    say("vocabulary", f"{tokenizer.vocab_size:,} ids")
    say("special", ", ".join(f"{token} {number}" for token, number in tokenizer.control_tokens.items()))
    density = bytes_per_token(tokenizer, texts.held_out)
    if density is None:
        say("per token", f"not measured: fewer than {HELD_OUT_EVERY} texts, so none was held out")
    else:
        held_out = f"{len(texts.held_out):,} texts held out, {texts.held_out_bytes / 1e6:,.1f} MB"
        say("per token", f"{density:.2f} bytes on {held_out}")
