"""``llmstack export``: rewrites a model folder in another dtype or shard size."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

from llmstack.cli.model_folder import load_tokenizer, say, write_model
from llmstack.errors import UserError
from llmstack.models.model_source import folder_source
from llmstack.models.new_folder import check_new

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}


def run(args: argparse.Namespace) -> int:
    """Checks a model folder completely, then writes it again; tokenizer, template and generation options go along.

    Args:
        args: ``model_dir``, ``out``, ``dtype`` (None: as most weights are), ``max_shard_size``.

    Returns:
        0.

    Raises:
        UserError: the folder cannot be read or is not complete, a size that is none, or ``out`` is not empty.
    """
    started = time.perf_counter()
    out, folder = Path(args.out), Path(args.model_dir)
    max_shard_bytes = _num_bytes(args.max_shard_size)
    check_new(out)
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a model folder, got none. Name one, e.g. runs/quickstart/policy/final.")
    source = folder_source(folder)
    tokenizer = load_tokenizer(folder)
    write_model(source, tokenizer, out, dtype=args.dtype or source.main_dtype, max_shard_bytes=max_shard_bytes)
    say("folder", f"{out} in {time.perf_counter() - started:.1f} seconds")
    return 0


def _num_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(KB|MB|GB)", text.strip(), re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise UserError(f"--max-shard-size: expected a size such as 5GB, 500MB or 64KB, got {text!r}. Write one.")
    return size
