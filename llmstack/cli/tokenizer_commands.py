"""The options of ``llmstack tokenizer``."""

from __future__ import annotations

import argparse

from llmstack.cli.arguments import add_fields, num_bytes, positive

Command = argparse.ArgumentParser


def add_tokenizer(command: Command) -> None:
    """Commands of ``llmstack tokenizer``.

    Args:
        command: gets them.
    """
    jobs = command.add_subparsers(title="jobs", metavar="JOB", required=True)
    train: Command = jobs.add_parser(
        "train",
        help="learn a tokenizer from text",
        description="Learns a byte-level BPE and writes it as a folder for `tokenizer: {kind: folder, path: DIR}`. A "
        "tenth of the texts, 1 MB at most, is held out to measure how much text a token stands for.",
        allow_abbrev=False,
    )
    train.set_defaults(module="tokenizer_train")
    add = train.add_argument
    add("files", metavar="FILE", nargs="+", help="text, .jsonl or .parquet; .gz or .zst; a file or a glob")
    add("--out", required=True, metavar="DIR", help="folder to make; must be new or empty")
    add("--vocab-size", required=True, type=positive, metavar="N", help="ids, with 256 bytes and the special tokens")
    add_fields(train)
    add(
        "--template",
        default="chatml",
        metavar="chatml|FILE.jinja",
        help="chat template of the folder (default chatml)",
    )
    add(
        "--limit-bytes",
        type=num_bytes,
        metavar="SIZE",
        help="learn from about so much text, e.g. 200MB: the beginning of each file, by its size (default: all)",
    )
