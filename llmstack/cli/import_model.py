"""``llmstack import``: brings a model from elsewhere into a folder that recipes can start from."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from llmstack.cli.model_folder import load_tokenizer, say, write_model
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.models.model_source import ModelSource, file_source, folder_source
from llmstack.models.new_folder import check_new
from llmstack.models.tensor_files import refuse_pickle

MAX_SHARD_BYTES = 5_000_000_000


def run(args: argparse.Namespace) -> int:
    """Checks a model completely, then writes it as a model folder; a line for each thing learned.

    Args:
        args: ``source``, ``out``, ``dtype``.

    Returns:
        0.

    Raises:
        UserError: the source cannot be read, is not complete, or is not implemented; ``out`` is not empty.
    """
    started = time.perf_counter()
    out = Path(args.out)
    check_new(out)
    source, tokenizer = _open(Path(args.source))
    write_model(source, tokenizer, out, dtype=args.dtype, max_shard_bytes=MAX_SHARD_BYTES)
    say("folder", f"{out} in {time.perf_counter() - started:.1f} seconds")
    return 0


def _open(path: Path) -> tuple[ModelSource, Tokenizer]:
    if path.is_dir():
        return folder_source(path), load_tokenizer(path)
    refuse_pickle(path)
    if not path.is_file() or path.suffix.lower() not in (".safetensors", ".gguf"):
        found = "a file of another kind" if path.is_file() else "nothing"
        raise UserError(f"{path}: expected a model folder, a .safetensors file or a .gguf file, got {found}. Name one.")
    if path.suffix.lower() == ".safetensors":
        return file_source(path), load_tokenizer(path.parent)
    from llmstack.models.gguf.source import gguf_source

    source, theirs = gguf_source(path)
    tokenizer = Tokenizer(
        theirs.backend, theirs.settings, theirs.template, extra_eos_ids=theirs.eos_ids, where=str(path)
    )
    return source, tokenizer
