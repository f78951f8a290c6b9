"""A tokenizer with one id a character, so that expected rows can be written by hand.

Ids: 0 ``<|endoftext|>``, 1 ``<|im_start|>``, 2 ``<|im_end|>``, 3 ``<|pad|>``, 4 line break, 5 space, 6 ``.``,
7 ``U`` and 8 ``A`` (the roles), 10.. ``a``...
"""

from __future__ import annotations

import string

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

from llmstack.data.tokenizer import Tokenizer

END, START, STOP, PAD, NEWLINE, USER, ASSISTANT = 0, 1, 2, 3, 4, 7, 8
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role[0] | upper }}{{ m.content }}<|im_end|>{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>A{% endif %}"
)


def ids(text: str) -> list[int]:
    """``abc`` -> 10, 11, 12."""
    return [10 + string.ascii_lowercase.index(letter) for letter in text]


def letter_tokenizer(*, pad: str = "<|pad|>", bos: bool = False, template: str | None = TEMPLATE) -> Tokenizer:
    """The tokenizer; ``pad`` may be the end-of-text token, ``bos`` makes it prefix documents as Llama's does."""
    vocab = {token: index for index, token in enumerate([*SPECIAL, "\n", " ", ".", "U", "A", "[UNK]"])}
    vocab |= {letter: 10 + index for index, letter in enumerate(string.ascii_lowercase)}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"(?m:.)"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    if bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<|im_start|> $A", special_tokens=[("<|im_start|>", START)]
        )
    return Tokenizer(backend, {"eos_token": "<|endoftext|>", "pad_token": pad}, template)
