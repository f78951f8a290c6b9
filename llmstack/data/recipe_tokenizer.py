"""The tokenizer of a recipe: trained on its texts, or read from a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import tokenizers  # type: ignore[import-untyped]

from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.files import read_text
from llmstack.data.records import record_texts
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from llmstack.registry import SOURCES

if TYPE_CHECKING:
    from llmstack.config.data import TokenizerConfig
    from llmstack.data.sources import Source


def build_tokenizer(config: TokenizerConfig, *, seed: int, cache_dir: str | Path | None = None) -> Tokenizer:
    """Make the recipe's tokenizer.

    A template path in ``chat_template`` always wins; ``chatml`` (the default) gives way to the template a folder
    tokenizer brings along.

    Args:
        config: the recipe's ``tokenizer``.
        seed: the recipe's seed, for the source a BPE is trained on.
        cache_dir: where a trained tokenizer is kept; it is used again when config, seed and every text are the same.

    Returns:
        The tokenizer.

    Raises:
        DataError: a file is missing or damaged, or there is nothing to train on.
    """
    own = None if config.chat_template == "chatml" else _read_template(config.chat_template)
    if config.kind == "folder":
        if config.path is None:
            raise DataError("tokenizer.path: expected a tokenizer folder for kind folder, got null. Set it.")
        tokenizer = Tokenizer.load(config.path, template=own)
        return tokenizer if tokenizer.has_template else Tokenizer.load(config.path, template=CHATML)
    if config.data is None or config.vocab_size is None:
        raise DataError("tokenizer: expected data and vocab_size for kind bpe, got null. Set both.")
    texts = _Texts(SOURCES.get(config.data.source)(config.data, seed=seed))
    template = own or CHATML
    if cache_dir is None:
        return Tokenizer(*train_bpe(texts, config.vocab_size), template)
    return _cached(texts, config.vocab_size, template, Path(cache_dir))


class _Texts:
    """The texts of a source, read anew each time they are gone through: a corpus need not fit into memory."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __iter__(self) -> Iterator[str]:
        empty = True
        for record in self._source.records():
            for text in record_texts(record):
                yield text
                empty = False
        if empty:
            raise DataError(
                "tokenizer.data: expected text to train on, got an empty data set. Check its path and split."
            )


def _cached(texts: Iterable[str], vocab_size: int, template: str, folder: Path) -> Tokenizer:
    digest = hashlib.sha256(f"{tokenizers.__version__}\0{vocab_size}\0{template}\0".encode())
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    key, key_file = digest.hexdigest(), folder / "key.txt"
    if key_file.is_file() and key_file.read_text(encoding="utf-8") == key:
        return Tokenizer.load(folder)
    tokenizer = Tokenizer(*train_bpe(texts, vocab_size), template)
    key_file.unlink(missing_ok=True)
    tokenizer.save(folder)
    # the key comes last: a run killed in between trains again instead of reading half a folder
    key_file.write_text(key, encoding="utf-8")
    return tokenizer


def _read_template(path: str) -> str:
    try:
        return read_text(Path(path))
    except DataError as error:
        raise DataError(f"tokenizer.chat_template: expected chatml or a Jinja file. {error}") from error
