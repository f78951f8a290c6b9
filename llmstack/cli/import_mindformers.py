"""``llmstack import-mindformers``: makes a model folder of a checkpoint that MindFormers' trainer wrote."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.runtime.device import setup


def run(args: argparse.Namespace) -> int:
    """Writes the folder, with the tokenizer of the model it is like.

    Args:
        args: ``checkpoint``, ``like``, ``out``, ``contiguous_attention`` and ``contiguous_mlp``.

    Returns:
        0.

    Raises:
        UserError: no checkpoint, one of another model, or no model folder to go by.
    """
    like, out = Path(args.like), Path(args.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out: expected a new or empty folder, got {out}. Name another.")
    tokenizer = Tokenizer.load(like)
    setup()
    from llmstack.integrations.mindformers.checkpoints import mindformers_to_hf
    from llmstack.integrations.mindformers.weights import FusedLayout
    from llmstack.models.hf_config import read_config

    mindformers_to_hf(
        args.checkpoint,
        read_config(like),
        out,
        layout=FusedLayout(args.contiguous_attention, not args.contiguous_mlp),
        eos_ids=tokenizer.eos_ids,
        pad_id=tokenizer.pad_id,
    )
    tokenizer.save(out)
    sys.stdout.write(f"{out}: a model folder\n")
    return 0
