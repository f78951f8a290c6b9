"""``llmstack generate``: lets a trained model go on from a prompt."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from llmstack.data.records import Message
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.runtime.device import setup


def run(args: argparse.Namespace) -> int:
    """Prints the answers, one after the other.

    Args:
        args: ``model_dir``, ``prompt``, ``chat``, ``temperature``, ``max_new_tokens``, ``num_samples``, ``seed``,
            ``top_k``, ``top_p``.

    Returns:
        0.

    Raises:
        UserError: no model folder, a model that does not write, a tokenizer of another model, an empty prompt or one
            longer than the context, or a sampling option out of range.
    """
    folder = Path(args.model_dir)
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a model folder, got none. Name one, e.g. runs/quickstart/policy/final.")
    tokenizer = Tokenizer.load(folder)
    prompt = _prompt_ids(tokenizer, args.prompt, chat=args.chat)
    setup()
    from llmstack.generation.pool import GeneratorPool
    from llmstack.generation.rules import SamplingRules
    from llmstack.models.checkpoint_io import build_causal, load_weights
    from llmstack.models.hf_config import folder_kind, read_config

    config = read_config(folder)
    if folder_kind(folder) != "causal":
        raise UserError(f"{folder}: expected a language model, got one that scores. Name a language model's folder.")
    if tokenizer.vocab_size > (config.vocab_size or 0):
        raise UserError(
            f"{folder}: expected a tokenizer of at most the model's {config.vocab_size} ids, got one of "
            f"{tokenizer.vocab_size}. Put the model's own tokenizer into the folder."
        )
    model = build_causal(config, seed=0)
    load_weights(model, folder)
    pool = GeneratorPool(model, eos_ids=tokenizer.eos_ids, rules=SamplingRules(top_k=args.top_k, top_p=args.top_p))
    (answers,) = pool.answer(
        [prompt],
        max_new_tokens=args.max_new_tokens,
        temperature=args.temperature,
        rng=np.random.default_rng(args.seed),
        num_samples=args.num_samples,
    )
    for number, answer in enumerate(answers, start=1):
        if len(answers) > 1:
            sys.stdout.write(f"--- {number} of {len(answers)}\n")
        sys.stdout.write(tokenizer.decode(answer.tokens) + "\n")
    return 0


def _prompt_ids(tokenizer: Tokenizer, text: str, *, chat: bool) -> list[int]:
    """The prompt as the model was trained to see it: a document's beginning, or a user's turn."""
    if chat:
        return tokenizer.encode_prompt([Message(role="user", content=text)], where="--prompt")
    ids = [*tokenizer.prefix_ids, *tokenizer.encode(text)]
    if not ids:
        raise UserError("--prompt: expected some text, got none. Write what the model should go on from.")
    return ids
