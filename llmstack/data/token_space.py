"""Token ids of several sets of documents under one numbering, read from memory or from mapped files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmstack.data.documents import Documents

# reading a token maps the pages around it: 64 KiB, or a huge page of 2 MiB where the system makes them of files
_PAGES_BYTES = 1 << 21
_RELEASE_BYTES = 32 << 20


class TokenSpace:
    """The tokens of some sets of documents, one set after the other.

    Args:
        parts: at least one.
    """

    def __init__(self, parts: Sequence[Documents]) -> None:
        self._parts = list(parts)
        sizes = [len(part.tokens) for part in parts]
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        self._mapped_bytes = 0

    @property
    def parts(self) -> list[Documents]:
        """The sets, in order."""
        return self._parts

    def tokens(self, index: np.ndarray) -> np.ndarray:
        """Ids at some places.

        Args:
            index: int64 (N,); a place behind the last gives the last id.

        Returns:
            int32 (N,).
        """
        return self._gather(index, [part.tokens for part in self._parts])

    def mask(self, index: np.ndarray) -> np.ndarray | None:
        """Whether the model has to produce the tokens at some places.

        Args:
            index: int64 (N,).

        Returns:
            int32 (N,) of 0 and 1; None when it has to everywhere.
        """
        if all(part.mask is None for part in self._parts):
            return None
        return self._gather(index, [np.ones(1, np.uint8) if p.mask is None else p.mask for p in self._parts])

    def _gather(self, index: np.ndarray, arrays: Sequence[np.ndarray]) -> np.ndarray:
        if len(arrays) == 1:
            return arrays[0].take(index, mode="clip").astype(np.int32)
        index = np.minimum(index, self.starts[-1] - 1)
        owner = np.searchsorted(self.starts, index, side="right") - 1
        found = np.empty(len(index), np.int32)
        for part in np.unique(owner):
            mine = owner == part
            local = index[mine] - self.starts[part]
            found[mine] = arrays[part].take(local, mode="clip")
        return found

    def origin(self, place: int) -> tuple[str, int]:
        """The document a token belongs to.

        Args:
            place: the token's.

        Returns:
            Where the document comes from, and how many of its tokens lie in front of this one.
        """
        part = int(np.searchsorted(self.starts, place, side="right")) - 1
        local = place - int(self.starts[part])
        bounds = self._parts[part].bounds
        document = int(np.searchsorted(bounds, local, side="right")) - 1
        return self._parts[part].where(document), local - int(bounds[document])

    def note_reads(self, runs: int, tokens: int) -> None:
        """Count what was read, and give the memory of mapped files back once it is much.

        Args:
            runs: stretches of tokens.
            tokens: tokens in all of them.
        """
        self._mapped_bytes += runs * _PAGES_BYTES + 4 * tokens
        if self._mapped_bytes > _RELEASE_BYTES:
            self._mapped_bytes = 0
            for part in self._parts:
                part.release()
