"""A model folder, ready for use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.models.causal_lm import CausalLM
from llmstack.models.checkpoint_io import build_causal, build_scalar, load_weights
from llmstack.models.hf_config import folder_kind, read_config
from llmstack.models.scalar_model import ScalarModel

ModelT = TypeVar("ModelT", CausalLM, ScalarModel)


@dataclass(frozen=True)
class Loaded(Generic[ModelT]):
    """A model with its weights and its tokenizer.

    Attributes:
        model: the network.
        tokenizer: the folder's.
        folder: where both come from.
    """

    model: ModelT
    tokenizer: Tokenizer
    folder: Path

    @property
    def context(self) -> int:
        """Longest context in tokens."""
        return self.model.config.max_position_embeddings


def load_language_model(folder: str | Path) -> Loaded[CausalLM]:
    """A language model and its tokenizer.

    Args:
        folder: a Hugging Face model folder with tokenizer files.

    Raises:
        UserError: no folder, a model that scores, weights that do not fit, or a tokenizer of another model.
    """
    path, tokenizer = _checked(folder, "causal")
    model = build_causal(read_config(path), seed=None)
    load_weights(model, path)
    return Loaded(model, tokenizer, path)


def load_reward_model(folder: str | Path) -> Loaded[ScalarModel]:
    """A reward model and its tokenizer.

    Args:
        folder: a Hugging Face model folder with tokenizer files.

    Raises:
        UserError: no folder, a model that writes, weights that do not fit, or a tokenizer of another model.
    """
    path, tokenizer = _checked(folder, "scalar")
    model = build_scalar(read_config(path), seed=None)
    load_weights(model, path)
    return Loaded(model, tokenizer, path)


def _checked(folder: str | Path, kind: str) -> tuple[Path, Tokenizer]:
    """What can be found wrong before any weight is read."""
    path = Path(folder)
    if not path.is_dir():
        raise UserError(f"{path}: expected a model folder, got none. Name one, e.g. runs/quickstart/policy/final.")
    tokenizer = Tokenizer.load(path)
    config = read_config(path)
    if folder_kind(path) != kind:
        raise UserError(
            f"{path}: expected a language model, got one that scores. Name a language model's folder."
            if kind == "causal"
            else f"{path}: expected a model that scores, got a language model. Name a reward model's folder."
        )
    if tokenizer.vocab_size > (config.vocab_size or 0):
        raise UserError(
            f"{path}: expected a tokenizer of at most the model's {config.vocab_size} ids, got one of "
            f"{tokenizer.vocab_size}. Put the model's own tokenizer into the folder."
        )
    return path, tokenizer
