"""Training a byte-level BPE with the `tokenizers` library."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import tokenizers  # type: ignore[import-untyped]
from tokenizers import decoders, models, pre_tokenizers, trainers

END_OF_TEXT, TURN_START, TURN_END, PAD = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END, PAD)

_log = logging.getLogger(__name__)


def train_bpe(texts: Iterable[str], vocab_size: int) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """Train a byte-level BPE (GPT-2's pre-tokenization; every text can be encoded and is decoded exactly).

    Args:
        texts: what to train on, gone through once; the same texts give the same tokenizer.
        vocab_size: wanted size, with the 256 bytes and the special tokens; a small corpus may not reach it.

    Returns:
        The tokenizers model and the settings that belong into ``tokenizer_config.json``.
    """
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    if backend.get_vocab_size() < vocab_size:
        _log.warning(
            "tokenizer.vocab_size: expected %d, got %d: the corpus holds no more merges",
            vocab_size,
            backend.get_vocab_size(),
        )
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT,
        "pad_token": PAD,
        "additional_special_tokens": [TURN_START, TURN_END],
        "clean_up_tokenization_spaces": False,
    }
    return backend, settings
