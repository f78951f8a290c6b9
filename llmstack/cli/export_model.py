"""``llmstack export``: rewrites a model folder in another dtype or shard size."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from llmstack.cli.model_folder import load_tokenizer, say, write_model
from llmstack.errors import UserError
from llmstack.models.model_source import folder_source
from llmstack.models.new_folder import check_new


def run(args: argparse.Namespace) -> int:
    """Checks a model folder completely, then writes it again; tokenizer, template and generation options go along.

    Args:
        args: ``model_dir``, ``out``, ``dtype`` (None: as most weights are), ``max_shard_size`` in bytes.

    Returns:
        0.

    Raises:
        UserError: the folder cannot be read or is not complete, or ``out`` is not empty.
    """
    started = time.perf_counter()
    out, folder = Path(args.out), Path(args.model_dir)
    check_new(out)
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a model folder, got none. Name one, e.g. runs/quickstart/policy/final.")
    source = folder_source(folder)
    tokenizer = load_tokenizer(folder)
    write_model(source, tokenizer, out, dtype=args.dtype or source.main_dtype, max_shard_bytes=args.max_shard_size)
    say("folder", f"{out} in {time.perf_counter() - started:.1f} seconds")
    return 0
