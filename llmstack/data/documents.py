"""Encoded documents: token ids one after the other, in memory or in files, with what is known of each document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llmstack.data.indexed import IndexedTokens, smallest_dtype
from llmstack.data.indexed_writer import IndexedWriter

_ENCODING = "utf-8"
# names of files need not be text
_ERRORS = "surrogatepass"


@dataclass
class Losses:
    """Records that were left out, by reason, and where the first of each came from."""

    records: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, where: str, count: int = 1) -> None:
        """Counts records left out.

        Args:
            reason: why, as a short name.
            where: where the first of them comes from.
            count: how many.
        """
        self.counts[reason] = self.counts.get(reason, 0) + count
        self.examples.setdefault(reason, where)

    def join(self, other: Losses) -> None:
        """Adds what another part of the data lost.

        Args:
            other: its losses.
        """
        self.records += other.records
        for reason, count in other.counts.items():
            self.add(reason, other.examples[reason], count)


@dataclass
class Encoded:
    """Some documents as they come out of the encoder.

    Attributes:
        ids: int32 (N,), all documents one after the other.
        lengths: int32 (M,), tokens of each document.
        mask: uint8 (N,), 1 where the model has to produce the token; None: everywhere.
        wheres: where each document comes from.
        margins: float32 (M / 2,) of preference pairs, whose two answers are two documents; (M,) of labelled answers,
            1 for a good one, 0 for a bad one; else empty.
        losses: records read and left out.
    """

    ids: np.ndarray
    lengths: np.ndarray
    mask: np.ndarray | None
    wheres: list[str]
    margins: np.ndarray
    losses: Losses

    @classmethod
    def of(
        cls,
        documents: Sequence[Sequence[int] | np.ndarray],
        masks: Sequence[Sequence[int]] | None,
        wheres: list[str],
        losses: Losses,
        margins: Sequence[float] = (),
    ) -> Encoded:
        """Joins documents.

        Args:
            documents: ids of each.
            masks: as long as its document each; None trains all tokens.
            wheres: where each comes from.
            losses: records read and left out.
            margins: one a pair of documents or one a labelled answer, or empty.
        """
        return cls(
            _flat(documents, np.int32),
            np.asarray([len(ids) for ids in documents], np.int32),
            None if masks is None else _flat(masks, np.uint8),
            wheres,
            np.asarray(margins, np.float32),
            losses,
        )


def _flat(parts: Sequence[Sequence[int] | np.ndarray], dtype: Any) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *(np.asarray(part, dtype) for part in parts)])


class Documents:
    """Token ids of M documents one after the other.

    Args:
        tokens: ids (N,), an array or a mapped file.
        bounds: int64 (M + 1,), where each document starts and the last ends.
        mask: uint8 (N,), 1 where the model has to produce the token; None: everywhere.
        wheres: where each document comes from, for messages.
        margins: float32 (M / 2,) of preference pairs, (M,) of labelled answers; else empty.
        losses: records read and left out.
        files: mapped files behind the arrays.

    Attributes:
        folder: where the files are; None in memory.
        encoded_now: they were encoded for this object, not found.
    """

    folder: Path | None = None
    encoded_now = False

    def __init__(
        self,
        tokens: np.ndarray,
        bounds: np.ndarray,
        *,
        mask: np.ndarray | None = None,
        wheres: Sequence[str] = (),
        margins: np.ndarray | None = None,
        losses: Losses | None = None,
        files: Sequence[IndexedTokens] = (),
    ) -> None:
        self.tokens, self.bounds, self.mask = tokens, bounds, mask
        self.wheres = wheres
        self.margins = np.zeros(0, np.float32) if margins is None else margins
        self.losses = losses or Losses(records=len(bounds) - 1)
        self._files = files

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each document, int64 (M,)."""
        return np.diff(self.bounds)

    def where(self, document: int) -> str:
        """Where a document comes from.

        Args:
            document: its number.
        """
        return self.wheres[document] if len(self.wheres) else f"document {document}"

    @property
    def file_bytes(self) -> int:
        """Size of all their files; 0 in memory."""
        return 0 if self.folder is None else sum(path.stat().st_size for path in self.folder.iterdir())

    def release(self) -> None:
        """Give the memory of mapped files back to the system."""
        for file in self._files:
            file.release()

    @classmethod
    def of(cls, chunks: Iterable[Encoded]) -> Documents:
        """Documents held in memory.

        Args:
            chunks: at least one chunk of the encoder.
        """
        parts, losses = list(chunks), Losses()
        for part in parts:
            losses.join(part.losses)
        lengths = np.concatenate([part.lengths for part in parts])
        masks = [part.mask for part in parts if part.mask is not None]
        return cls(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]),
            mask=np.concatenate(masks) if masks else None,
            wheres=[where for part in parts for where in part.wheres],
            margins=np.concatenate([part.margins for part in parts]),
            losses=losses,
        )


class _Texts(Sequence[str]):
    """Short texts in a token file, a byte a token."""

    def __init__(self, file: IndexedTokens) -> None:
        self._file = file

    def __len__(self) -> int:
        return len(self._file)

    def __getitem__(self, index: Any) -> Any:
        return self._file[index].tobytes().decode(_ENCODING, _ERRORS)


def write_documents(folder: Path, chunks: Iterable[Encoded], vocab_size: int) -> None:
    """Write documents into files that :func:`open_documents` reads: Megatron pairs and two small ones.

    ``tokens`` holds the ids, ``mask`` (where there is one) a byte a token, ``where`` the texts that say where each
    document comes from; ``margins.npy`` and ``losses.json`` the rest.

    Args:
        folder: an empty folder.
        chunks: what the encoder gives.
        vocab_size: decides how an id is stored.
    """
    losses, margins = Losses(), []
    with (
        IndexedWriter(folder / "tokens", smallest_dtype(vocab_size)) as tokens,
        IndexedWriter(folder / "mask", np.uint8) as masks,
        IndexedWriter(folder / "where", np.uint8) as wheres,
    ):
        for chunk in chunks:
            tokens.add_many(chunk.ids, chunk.lengths)
            if chunk.mask is not None:
                masks.add_many(chunk.mask, chunk.lengths)
            texts = [where.encode(_ENCODING, _ERRORS) for where in chunk.wheres]
            lengths = np.asarray([len(text) for text in texts], np.int32)
            wheres.add_many(np.frombuffer(b"".join(texts), np.uint8), lengths)
            losses.join(chunk.losses)
            margins.append(chunk.margins)
    np.save(folder / "margins.npy", np.concatenate([np.zeros(0, np.float32), *margins]), allow_pickle=False)
    text = json.dumps({"records": losses.records, "counts": losses.counts, "examples": losses.examples}, indent=1)
    (folder / "losses.json").write_text(text, encoding=_ENCODING)


def open_documents(folder: Path) -> Documents:
    """Documents in files, which stay there.

    Args:
        folder: what :func:`write_documents` filled.

    Raises:
        DataError: a file is damaged.
    """
    tokens, masks, wheres = (IndexedTokens(folder / name) for name in ("tokens", "mask", "where"))
    documents = Documents(
        tokens.tokens.view(np.ndarray),
        tokens.offsets,
        mask=masks.tokens.view(np.ndarray) if masks.num_tokens else None,
        wheres=_Texts(wheres),
        margins=np.load(folder / "margins.npy", allow_pickle=False),
        losses=Losses(**json.loads((folder / "losses.json").read_text(encoding=_ENCODING))),
        files=(tokens, masks),
    )
    documents.folder = folder
    return documents
