"""What ``llmstack import`` and ``llmstack export`` share: writing a checked model and its tokenizer as a folder."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.models.hf_config import read_json, write_json
from llmstack.models.model_source import ModelSource
from llmstack.models.new_folder import new_folder
from llmstack.models.tensor_writer import write_streamed

GENERATION_FILE = "generation_config.json"


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder, with what to do about one that is in another form.

    Args:
        folder: a model folder.

    Raises:
        UserError: there is no ``tokenizer.json``, or it cannot be used.
    """
    if not (folder / "tokenizer.json").is_file():
        raise UserError(
            f"{folder}: expected tokenizer.json beside the weights, got none. Save the tokenizer in that form "
            "(transformers: `AutoTokenizer.from_pretrained`, then `save_pretrained`) into the folder."
        )
    return Tokenizer.load(folder)


def write_model(source: ModelSource, tokenizer: Tokenizer, out: Path, *, dtype: str, max_shard_bytes: int) -> None:
    """Write a model folder, all or nothing, and say what it holds, a line a thing.

    Args:
        source: the model.
        tokenizer: its tokenizer.
        out: where the folder will be; missing or empty.
        dtype: how weights are stored.
        max_shard_bytes: weights above this are cut into several files.

    Raises:
        UserError: the tokenizer has more ids than the model, a weight does not fit ``dtype``, or ``out`` is not empty.
    """
    config = source.config
    if tokenizer.vocab_size > (config.vocab_size or 0):
        raise UserError(
            f"{source.where}: expected a tokenizer of at most the model's {config.vocab_size} ids, got one of "
            f"{tokenizer.vocab_size}. Put the model's own tokenizer beside it."
        )
    say(
        "family",
        f"{config.family}, {config.num_hidden_layers} layers, width {config.hidden_size}, "
        f"{config.num_attention_heads} query heads on {config.num_key_value_heads}",
    )
    say("parameters", f"{source.num_parameters:,}")
    say("stored as", ", ".join(name for name, _ in Counter(source.stored_as).most_common()))
    template = "with" if tokenizer.has_template else "without"
    say("tokenizer", f"{tokenizer.vocab_size:,} ids, {template} a chat template")
    with new_folder(out) as folder:
        write_json(folder / "config.json", source.config_json(dtype))
        tokenizer.save(folder)
        num_bytes = write_streamed(source.tensors, folder, dtype=dtype, max_shard_bytes=max_shard_bytes)
        # sampling options the model came with stay beside the ending ids of its tokenizer
        write_json(folder / GENERATION_FILE, source.generation | read_json(folder / GENERATION_FILE))
    say("written as", f"{dtype}, {num_bytes / 1e6:,.0f} MB")


def say(what: str, text: str) -> None:
    """Print one thing that was learned.

    Args:
        what: its name.
        text: what it is.
    """
    sys.stdout.write(f"{what:<11}{text}\n")
