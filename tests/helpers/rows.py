"""Rows made from records in memory, as the tests want them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llmstack.data.answer_rows import LabelledRows, PreferenceRows
from llmstack.data.documents import Documents, Encoded, Losses
from llmstack.data.encode import encode_chat, encode_labelled, encode_pairs, encode_text
from llmstack.data.pack import Packed, Pieces
from llmstack.data.packed_rows import PackedRows
from llmstack.data.records import Record
from llmstack.data.row_tables import EncodeReport, Rows
from llmstack.data.rows import chat_rows, labelled_rows, pair_rows, text_rows
from llmstack.data.token_space import TokenSpace
from llmstack.data.tokenizer import Tokenizer


def text(records: Sequence[Record], tokenizer: Tokenizer, seq_len: int, **options: Any) -> PackedRows:
    return text_rows(Documents.of([encode_text(records, tokenizer)]), seq_len, tokenizer.pad_id, **options)


def chat(
    records: Sequence[Record], tokenizer: Tokenizer, seq_len: int, max_untrained_ratio: float, **options: Any
) -> PackedRows:
    documents = Documents.of([encode_chat(records, tokenizer)])
    return chat_rows(documents, seq_len, tokenizer.pad_id, max_untrained_ratio=max_untrained_ratio, **options)


def pairs(records: Sequence[Record], tokenizer: Tokenizer, seq_len: int, **options: Any) -> PreferenceRows:
    documents = Documents.of([encode_pairs(records, tokenizer)])
    return pair_rows(documents, seq_len, tokenizer.pad_id, **{"max_dropped_ratio": 1.0, **options})


def labelled(records: Sequence[Record], tokenizer: Tokenizer, seq_len: int, **options: Any) -> LabelledRows:
    documents = Documents.of([encode_labelled(records, tokenizer)])
    return labelled_rows(documents, seq_len, tokenizer.pad_id, **{"max_dropped_ratio": 1.0, **options})


def everything(rows: Rows) -> dict[str, np.ndarray]:
    """All rows as one batch."""
    return rows.take(np.arange(len(rows)))


def documents_of(lengths: Sequence[int], *, mask: Sequence[int] | None = None) -> Documents:
    """Documents whose ids tell where they come from: document * 100 + place, documents from 1."""
    ids = [[number * 100 + place for place in range(length)] for number, length in enumerate(lengths, start=1)]
    encoded = Encoded.of(ids, None, [f"x:{number + 1}" for number in range(len(ids))], Losses(records=len(ids)))
    if mask is not None:
        encoded.mask = np.asarray(mask, np.uint8)
    return Documents.of([encoded])


def numbered_rows(num_rows: int, seq_len: int = 1, *, first: int = 0) -> PackedRows:
    """Full rows of one document each; all tokens of row i are ``first + i``."""
    tokens = np.repeat(np.arange(first, first + num_rows), seq_len)
    documents = Documents(tokens, np.arange(num_rows + 1) * seq_len)
    lengths = np.full(num_rows, seq_len, np.int32)
    pieces = Pieces(documents.bounds[:-1], lengths, np.ones(num_rows, bool), lengths)
    packed = Packed(pieces, np.arange(num_rows + 1))
    return PackedRows(TokenSpace([documents]), packed, seq_len, 0, EncodeReport(num_rows, num_rows))
