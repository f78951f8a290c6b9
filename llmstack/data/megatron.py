"""Documents that are token ids already, from Megatron's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmstack.data.cache import cached_folder
from llmstack.data.documents import Documents
from llmstack.data.encode import check_vocabulary
from llmstack.data.files import hash_contents
from llmstack.data.indexed import IndexedTokens, index_path, token_path
from llmstack.data.records import Record, TokensRecord
from llmstack.errors import DataError

if TYPE_CHECKING:
    from llmstack.config.data import MegatronConfig
    from llmstack.data.tokenizer import Tokenizer

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

    def mapped(self, tokenizer: Tokenizer) -> Documents:
        """The documents as they lie in the files, without a copy.

        Args:
            tokenizer: the one whose ids they should be.

        Raises:
            DataError: the files do not fit together, hold no document, or have ids beyond the vocabulary.
        """
        tokens = IndexedTokens(self._path)
        if not tokens.num_tokens:
            raise DataError(f"{self._path}: expected at least one document, got an empty data set. Name another.")

        def build(folder: Path) -> None:
            (folder / "largest.txt").write_text(str(tokens.largest_id()), encoding="ascii")

        # the whole file is read for this once, not at every start
        known = cached_folder("largest_id", self.fingerprint(), build) / "largest.txt"
        check_vocabulary(int(known.read_text(encoding="ascii")), tokenizer, str(token_path(self._path)))
        bounds = tokens.offsets[tokens.documents]
        wheres = _Numbered(self._path, len(bounds) - 1)
        return Documents(tokens.tokens.view(np.ndarray), bounds, wheres=wheres, files=(tokens,))

    def fingerprint(self) -> str:
        """Hash of both files' contents."""
        return hash_contents([index_path(self._path), token_path(self._path)])


class _Numbered(Sequence[str]):
    """``path:0``, ``path:1``, ... without a list of them."""

    def __init__(self, path: str, count: int) -> None:
        self._path, self._count = path, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return f"{self._path}:{index}"
