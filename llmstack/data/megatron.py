"""Documents that are token ids already, from Megatron's files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmstack.data.files import hash_contents
from llmstack.data.indexed import IndexedTokens, index_path, token_path
from llmstack.data.records import Record, TokensRecord
from llmstack.errors import DataError

if TYPE_CHECKING:
    from llmstack.config.data import MegatronConfig

_RELEASE_TOKENS = 1 << 24


class MegatronTokens:
    """The documents of a .bin and an .idx file: of one sequence or several, each whole.

    Whether the ids are those of the recipe's tokenizer is nothing the files tell.
    """

    def __init__(self, config: MegatronConfig, *, seed: int) -> None:
        self._path = config.path

    def records(self) -> Iterator[Record]:
        """Every document, in the file's order.

        Yields:
            One ``TokensRecord`` a document, its ids a read-only view into the file.

        Raises:
            DataError: the files do not fit together, or hold no document.
        """
        tokens = IndexedTokens(self._path)
        if len(tokens.documents) < 2:
            raise DataError(f"{self._path}: expected at least one document, got an empty data set. Name another.")
        bounds = tokens.offsets[tokens.documents]
        released = 0
        for number, (start, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            yield TokensRecord(tokens.tokens[start:end], where=f"{self._path}:{number}")
            if end - released > _RELEASE_TOKENS:
                tokens.release()
                released = end

    def fingerprint(self) -> str:
        """Hash of both files' contents."""
        return hash_contents([index_path(self._path), token_path(self._path)])
