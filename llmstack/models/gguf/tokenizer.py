"""The tokenizer of a GGUF file as a `tokenizers` model with the settings of a Hugging Face folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tokenizers  # type: ignore[import-untyped]
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from llmstack.errors import UserError
from llmstack.models.gguf import sentencepiece
from llmstack.models.gguf.reader import GgufFile

UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 2, 3, 4, 5
"""Values of ``tokenizer.ggml.token_type``."""
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_NAMED = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}


@dataclass(frozen=True)
class Splitter:
    """How text is cut before byte-pair merges, one entry of llama.cpp's ``tokenizer.ggml.pre``.

    Attributes:
        pattern: regular expression of the pieces; empty: GPT-2's own.
        single_digits: each digit is a piece, before anything else.
        nfc: text is normalised to NFC first.
        ignore_merges: a piece that is a token itself is never merged from smaller ones.
        add_bos: a document begins with BOS unless the file says otherwise.
    """

    pattern: str = ""
    single_digits: bool = False
    nfc: bool = False
    ignore_merges: bool = False
    add_bos: bool = False


_LLAMA3 = Splitter(rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}", ignore_merges=True, add_bos=True)
SPLITTERS = {
    "gpt-2": Splitter(),
    "smollm": Splitter(single_digits=True),
    "qwen2": Splitter(rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}", nfc=True),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
}


@dataclass(frozen=True)
class ImportedTokenizer:
    """A tokenizer as the files of a Hugging Face folder say it.

    Attributes:
        backend: content of ``tokenizer.json``.
        settings: content of ``tokenizer_config.json``.
        template: the chat template, or None.
        eos_ids: every id that ends an answer, that of ``eos_token`` first.
        ids: ``bos_token_id``, ``eos_token_id``, ``pad_token_id`` where the file has them.
    """

    backend: tokenizers.Tokenizer
    settings: dict[str, Any]
    template: str | None = field(repr=False)
    eos_ids: tuple[int, ...]
    ids: dict[str, int]


def import_tokenizer(file: GgufFile) -> ImportedTokenizer:
    """Build the tokenizer a GGUF file describes.

    Args:
        file: the GGUF file.

    Raises:
        UserError: a kind of tokenizer or pre-tokenizer that is not implemented, a missing key, or lists that do not
            fit each other.
    """
    tokens = file.get("tokenizer.ggml.tokens", list)
    types = file.get("tokenizer.ggml.token_type", list, [1] * len(tokens))
    twice = len(tokens) - len(set(tokens))
    if len(types) != len(tokens) or twice or not all(isinstance(token, str) for token in tokens):
        raise UserError(
            f"{file.path}: expected a text and a type for each token, got {len(tokens)} tokens "
            f"({twice} of them repeated) and {len(types)} types. Convert it again."
        )
    # the converter fills up to the embedding's size with these; nothing can be encoded to them
    vocab = {
        token: index for index, token in enumerate(tokens) if not (types[index] == UNUSED and token == f"[PAD{index}]")
    }
    special = {key: _special_id(file, name, len(tokens)) for key, name in _NAMED.items()}
    if special["eos_token"] is None:
        raise UserError(f"{file.path}: expected tokenizer.ggml.eos_token_id, got none. Convert the model again.")
    try:
        backend, add_bos = _backend(file, vocab, types, special["unk_token"])
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception on tokens and merges that do not fit
        raise UserError(f"{file.path}: expected tokens and merges that fit, got {error}. Convert it again.") from error
    _add_tokens(backend, vocab, types)
    _add_ends(file, backend, special, tokens, add_bos=add_bos)
    extra = [_special_id(file, name, len(tokens)) for name in ("eot", "eom")]
    names = {key: tokens[index] for key, index in special.items() if index is not None}
    return ImportedTokenizer(
        backend=backend,
        settings={"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names},
        template=file.get("tokenizer.chat_template", str, None),
        eos_ids=tuple(dict.fromkeys(i for i in (special["eos_token"], *extra) if i is not None)),
        ids={f"{key}_id": i for key, i in special.items() if i is not None and key != "unk_token"},
    )


def _special_id(file: GgufFile, name: str, num_tokens: int) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    index: int | None = file.get(key, int, None)
    if index is not None and not 0 <= index < num_tokens:
        raise UserError(f"{file.path}: {key}: expected an id below {num_tokens}, got {index}. Convert it again.")
    return index


def _backend(
    file: GgufFile, vocab: dict[str, int], types: list[int], unknown: int | None
) -> tuple[tokenizers.Tokenizer, bool]:
    """The tokenizers model, and whether documents begin with BOS when the file does not say."""
    kind = file.get("tokenizer.ggml.model", str)
    if kind == "gpt2":
        return _byte_level(file, vocab)
    if kind == "llama":
        return sentencepiece.build(file, vocab, types, unknown), True
    raise UserError(f"{file.path}: tokenizer.ggml.model: expected gpt2 or llama, got {kind!r}. Use another model.")


def _byte_level(file: GgufFile, vocab: dict[str, int]) -> tuple[tokenizers.Tokenizer, bool]:
    name = file.get("tokenizer.ggml.pre", str)
    if name not in SPLITTERS:
        raise UserError(
            f"{file.path}: tokenizer.ggml.pre: expected one of {', '.join(SPLITTERS)}, got {name!r}. Use another "
            "model, or the Hugging Face folder of this one."
        )
    splitter = SPLITTERS[name]
    merges = [tuple(merge.split(" ", 1)) for merge in file.get("tokenizer.ggml.merges", list)]
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=splitter.ignore_merges))
    if splitter.nfc:
        backend.normalizer = normalizers.NFC()
    prefix = file.get("tokenizer.ggml.add_space_prefix", bool, False)
    steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if splitter.single_digits else []
    if splitter.pattern:
        steps.append(pre_tokenizers.Split(tokenizers.Regex(splitter.pattern), behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not splitter.pattern))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    return backend, splitter.add_bos


def _add_tokens(backend: tokenizers.Tokenizer, vocab: dict[str, int], types: list[int]) -> None:
    """Tokens that are found in text before anything is split: control tokens and those the model's makers added."""
    special = [token for token, index in vocab.items() if types[index] in (UNKNOWN, CONTROL)]
    added = [token for token, index in vocab.items() if types[index] == USER_DEFINED]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in added])


def _add_ends(
    file: GgufFile, backend: tokenizers.Tokenizer, special: dict[str, int | None], tokens: list[str], *, add_bos: bool
) -> None:
    """BOS in front and EOS behind, where the file asks for them."""
    first, last = special["bos_token"], special["eos_token"]
    before = [first] if file.get("tokenizer.ggml.add_bos_token", bool, add_bos and first is not None) else []
    after = [last] if file.get("tokenizer.ggml.add_eos_token", bool, False) else []
    if before == [None]:
        raise UserError(f"{file.path}: expected tokenizer.ggml.bos_token_id, got none. Convert the model again.")
    ends = [(tokens[index], index) for index in (*before, *after) if index is not None]
    if ends:
        opening, closing = [tokens[i] for i in before if i is not None], [tokens[i] for i in after if i is not None]
        backend.post_processor = processors.TemplateProcessing(
            single=[*opening, "$A", *closing],
            pair=[*opening, "$A", *closing, *(f"{t}:1" for t in opening), "$B:1", *(f"{t}:1" for t in closing)],
            special_tokens=list(dict.fromkeys(ends)),
        )
