"""A tokenizer of its own folder from files of text: which texts it learns from, and how well it does on others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from llmstack.data.bpe import SPECIAL_TOKENS, train_bpe
from llmstack.data.files import resolve_files
from llmstack.data.records import Message, record_texts
from llmstack.data.sources import Source
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from llmstack.registry import SOURCES

MIN_VOCAB_SIZE = 262
HELD_OUT_EVERY, HELD_OUT_BYTES = 10, 1_000_000
"""Each tenth text is held out, up to so many bytes in all."""
_COMPRESSED = (".gz", ".zst")
_WITH_FIELDS = {".jsonl": "jsonl", ".parquet": "parquet"}
_PROBE = (Message("user", "a"), Message("assistant", "b"))


def source_name(path: Path) -> str:
    """The data source that reads a file, by the ending of its name.

    Args:
        path: ``.jsonl``, ``.parquet`` or text, each compressed (``.gz``, ``.zst``) or not.

    Returns:
        A name in the source registry.

    Raises:
        DataError: there is no such source.
    """
    inner = path.with_suffix("") if path.suffix in _COMPRESSED else path
    name = _WITH_FIELDS.get(inner.suffix, "text")
    if name not in SOURCES:
        raise DataError(f"{path}: expected text or .jsonl, got {inner.suffix}, which no source reads. Convert it.")
    return name


class TrainingTexts:
    """The texts of some files, gone through once: most are handed out to learn from, some are held out.

    Files are read as the iteration goes on. A document of a text file is what blank lines separate.

    Args:
        patterns: files or globs; a file named twice is read once.
        fields: our name ``text`` -> the files' name of it, where they differ; for files that have fields.
        limit_bytes: hand out about so many bytes (UTF-8): of each file its beginning, in proportion to the size of the
            file; None: everything.

    Attributes:
        files: the files, in the order they are read.
        num_texts: texts handed out so far.
        num_bytes: their length in UTF-8.
        held_out: texts kept to measure on; complete at the end of the iteration.
        held_out_bytes: their length in UTF-8.

    Raises:
        DataError: a pattern matches nothing, a file cannot be read, or ``fields`` has no use.
    """

    def __init__(
        self, patterns: Sequence[str], *, fields: Mapping[str, str] | None = None, limit_bytes: int | None = None
    ) -> None:
        self.files = tuple(dict.fromkeys(path for pattern in patterns for path in resolve_files(pattern)))
        if fields and all(source_name(path) == "text" for path in self.files):
            names = ", ".join(path.name for path in self.files[:3])
            raise DataError(f"fields: expected a .jsonl or .parquet file among the files, got {names}. Remove them.")
        self._read = [(path, _source(path, fields or {})) for path in self.files if path.stat().st_size]
        self._limit_bytes = limit_bytes
        self.num_texts = self.num_bytes = self.held_out_bytes = 0
        self.held_out: list[str] = []

    def __iter__(self) -> Iterator[str]:
        """The texts to learn from.

        Raises:
            DataError: a file cannot be read to its end, or there is no text at all.
        """
        self.num_texts = self.num_bytes = self.held_out_bytes = 0
        self.held_out = []
        so_far = list(accumulate(path.stat().st_size for path, _ in self._read))
        for (path, source), size in zip(self._read, so_far, strict=True):
            yield from self._of_file(path, source, size / so_far[-1])
        if not self.num_texts:
            raise DataError(f"{self.files[0]}: expected text to learn from, got only empty files. Name another.")

    def _of_file(self, path: Path, source: Source, share: float) -> Iterator[str]:
        """Texts of one file until, with all files before it, it has handed out this share of the limit."""
        for text in _texts(source, joined=source_name(path) == "text"):
            if self._limit_bytes is not None and self.num_bytes >= self._limit_bytes * share:
                return
            size = len(text.encode())
            tenth = (self.num_texts + len(self.held_out)) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
            if tenth and self.held_out_bytes < HELD_OUT_BYTES * share:
                self.held_out.append(text)
                self.held_out_bytes += size
                continue
            self.num_texts += 1
            self.num_bytes += size
            yield text


def check_template(template: str, *, where: str) -> None:
    """Refuse a chat template that a tokenizer trained here could not be used with, before it is trained.

    Args:
        template: the Jinja text.
        where: its file, for messages.

    Raises:
        DataError: it cannot be read or rendered, or ends an assistant's turn with no special token.
    """
    tokenizer = Tokenizer(*train_bpe(["a"], 256 + len(SPECIAL_TOKENS)), template, where=where)
    tail = tokenizer.render(_PROBE, add_generation_prompt=False).rpartition("b")[2]
    try:
        tokenizer.encode_chat(_PROBE)
    except DataError as error:
        raise DataError(
            f"{where}: expected a template that ends the assistant's turn with one of {', '.join(SPECIAL_TOKENS)}, got "
            f"{tail!r} there. Use one of these: a tokenizer trained here has no other special tokens."
        ) from error


def train_tokenizer(texts: Iterable[str], vocab_size: int, template: str) -> Tokenizer:
    """Train a byte-level BPE.

    Args:
        texts: gone through once; memory grows with the number of different words, not with the length.
        vocab_size: wanted size, at least ``MIN_VOCAB_SIZE``.
        template: a chat template that :func:`check_template` accepts.

    Returns:
        The tokenizer; a small corpus may give fewer ids than wanted.

    Raises:
        DataError: the size is too small.
    """
    if vocab_size < MIN_VOCAB_SIZE:
        raise DataError(
            f"vocab_size: expected at least {MIN_VOCAB_SIZE} (256 bytes, {len(SPECIAL_TOKENS)} special tokens and "
            f"something to learn), got {vocab_size}. Raise it."
        )
    return Tokenizer(*train_bpe(texts, vocab_size), template)


def bytes_per_token(tokenizer: Tokenizer, texts: Sequence[str]) -> float | None:
    """How much text a token stands for.

    Args:
        tokenizer: encodes the texts.
        texts: those it has not learned from.

    Returns:
        Bytes of UTF-8 per token; None without text.
    """
    num_tokens = sum(map(len, tokenizer.encode_batch(texts)))
    return sum(len(text.encode()) for text in texts) / num_tokens if num_tokens else None


def _source(path: Path, fields: Mapping[str, str]) -> Source:
    name = source_name(path)
    options: dict[str, Any] = {"source": name, "path": str(path)}
    options |= {"split_documents": "blank_line"} if name == "text" else {"record": "text", "fields": dict(fields)}
    config: Any = SOURCES.config(name)
    source: Source = SOURCES.get(name)(config.model_validate(options), seed=0)
    return source


def _texts(source: Source, *, joined: bool) -> Iterator[str]:
    """A source's texts; those of one text file with the blank line between them."""
    first = True
    for record in source.records():
        for text in record_texts(record):
            if text.strip():
                yield text if first or not joined else f"\n\n{text}"
                first = False
