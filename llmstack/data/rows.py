"""Rows of tokens from records: what is kept, what is cut and what is left out is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmstack.data.pack import Piece, document_pieces, masked_piece, pack_rows
from llmstack.data.records import (
    Message,
    MessagesRecord,
    PreferenceRecord,
    PromptRecord,
    Record,
    ResponseRecord,
    TextRecord,
    require,
)
from llmstack.data.row_tables import EncodeReport, PreferenceRows, PromptRows, Rows
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError


def lm_rows_from_text(records: Sequence[Record], tokenizer: Tokenizer, seq_len: int) -> Rows:
    """Rows for training on every token of plain documents.

    A document is its BOS (when the tokenizer has one), its text and the end-of-text token, which is trained. Documents
    of at most ``seq_len`` tokens stay whole; longer ones are cut into pieces without losing a label.

    Args:
        records: ``TextRecord``s.
        tokenizer: gives the ids.
        seq_len: tokens T in a row.

    Returns:
        ``tokens, labels, positions, segments`` int32 (N, T), ``loss_mask`` float32 (N, T).

    Raises:
        DataError: no records, records of another kind, or no text in any.
    """
    documents = require(records, (TextRecord,), used_for="language-model rows")
    encoded = tokenizer.encode_batch([document.text for document in documents])
    pieces: list[Piece] = []
    dropped = _Dropped()
    cut = 0
    for document, ids in zip(documents, encoded, strict=True):
        if not ids:
            dropped.add("empty", document.where)
            continue
        whole = [*tokenizer.prefix_ids, *ids, tokenizer.eos_id]
        cut += len(whole) > seq_len
        pieces += document_pieces(whole, seq_len)
    if not pieces:
        raise DataError(f"{documents[0].where or 'data'}: expected text, got only empty documents. Check the source.")
    return _packed(pieces, tokenizer, seq_len, dropped.report(len(documents), cut))


def lm_rows_from_chat(
    records: Sequence[Record], tokenizer: Tokenizer, seq_len: int, max_untrained_ratio: float
) -> Rows:
    """Rows for training on what the assistant says.

    A conversation longer than ``seq_len`` keeps its beginning and is counted as cut; its last answer then has no ending
    token, and none is made up. A conversation in which nothing is left to train is left out and counted.

    Args:
        records: ``ResponseRecord``s or ``MessagesRecord``s.
        tokenizer: gives ids and assistant mask.
        seq_len: tokens T in a row.
        max_untrained_ratio: share of conversations without a trained token above which the data is refused.

    Returns:
        ``tokens, labels, positions, segments`` int32 (N, T), ``loss_mask`` float32 (N, T).

    Raises:
        DataError: no records, records of another kind, or too many without a trained token.
    """
    samples: list[ResponseRecord | MessagesRecord] = require(
        records, (ResponseRecord, MessagesRecord), used_for="chat rows"
    )
    encoded = tokenizer.encode_chats(
        [sample.messages for sample in samples],
        wheres=[sample.where for sample in samples],
        tools=[sample.tools for sample in samples],
    )
    pieces: list[Piece] = []
    dropped = _Dropped()
    cut = 0
    for sample, (ids, mask) in zip(samples, encoded, strict=True):
        piece = masked_piece(ids, mask, seq_len)
        if piece.loss_mask.any():
            cut += len(ids) > seq_len
            pieces.append(piece)
        else:
            dropped.add("prompt_fills_row" if any(mask) else "no_assistant_token", sample.where)
    _refuse_untrained(dropped, len(samples), len(pieces), max_untrained_ratio)
    return _packed(pieces, tokenizer, seq_len, dropped.report(len(samples), cut))


def _refuse_untrained(dropped: _Dropped, total: int, kept: int, max_untrained_ratio: float) -> None:
    count = total - kept
    if kept and count <= max_untrained_ratio * total:
        return
    reason, where = next(iter(dropped.examples.items()))
    why = {
        "prompt_fills_row": "its prompt alone fills the row; raise seq_len or shorten it",
        "no_assistant_token": "it has no assistant turn with text; add one or remove the sample",
    }[reason]
    raise DataError(
        f"{where or 'data'}: expected at most {max_untrained_ratio:.0%} of the samples to have no trained token "
        f"(max_untrained_ratio), got {count} of {total}. In this one {why}."
    )


def preference_rows(records: Sequence[Record], tokenizer: Tokenizer, seq_len: int) -> PreferenceRows:
    """Rows for a reward model: prompt and answer up to the token that ends it, right-padded.

    Both answers of a pair see the same prompt tokens: when one is too long for the row, the beginning of the prompt
    goes. An answer that leaves no room for a prompt token is never cut; its pair is left out and counted, as is a pair
    of equal answers.

    Args:
        records: ``PreferenceRecord``s.
        tokenizer: gives ids and assistant mask.
        seq_len: tokens T in a row.

    Returns:
        ``tokens, positions, segments`` int32 (N, 2, T), ``last`` int32 (N, 2), ``margin`` float32 (N,); chosen first.

    Raises:
        DataError: no records, records of another kind, or none that fits.
    """
    pairs = require(records, (PreferenceRecord,), used_for="preference rows")
    chosen = prompt_and_answer(tokenizer, pairs, [pair.chosen for pair in pairs])
    rejected = prompt_and_answer(tokenizer, pairs, [pair.rejected for pair in pairs])
    kept: list[tuple[list[int], list[int]]] = []
    margins: list[float] = []
    dropped = _Dropped()
    cut = 0
    for pair, good, bad in zip(pairs, chosen, rejected, strict=True):
        room = seq_len - max(len(good[1]), len(bad[1]))
        if good[1] == bad[1]:
            dropped.add("equal_answers", pair.where)
        elif room < 1:
            dropped.add("answer_too_long", pair.where)
        else:
            cut += max(len(good[0]), len(bad[0])) > room
            kept.append((good[0][-room:] + good[1], bad[0][-room:] + bad[1]))
            margins.append(pair.margin)
    if not kept:
        reason, where = next(iter(dropped.examples.items()))
        raise DataError(
            f"{where or 'data'}: expected a pair of different answers that fit into seq_len {seq_len}, got none "
            f"({reason} here). Raise seq_len or change the data."
        )
    arrays = _right_padded(kept, seq_len, tokenizer.pad_id)
    arrays["margin"] = np.asarray(margins, np.float32)
    num_tokens = int(arrays["segments"].sum())
    report = dropped.report(len(pairs), cut, padding_ratio=1.0 - num_tokens / arrays["segments"].size)
    return PreferenceRows(arrays, num_tokens, report)


def prompt_and_answer(
    tokenizer: Tokenizer, pairs: Sequence[PreferenceRecord], answers: Sequence[str]
) -> list[tuple[list[int], list[int]]]:
    """The turns of a prompt and the assistant's behind them, as a reward model reads them.

    Args:
        tokenizer: gives ids and assistant mask.
        pairs: their prompts are taken.
        answers: one for each, e.g. the chosen ones.

    Returns:
        For each the ids in front of the answer, and the answer's with the token that ends it.

    Raises:
        DataError: an answer without a token, or a turn that the tokenizer refuses.
    """
    encoded = tokenizer.encode_chats(
        [(*pair.prompt_messages, Message("assistant", answer)) for pair, answer in zip(pairs, answers, strict=True)],
        wheres=[pair.where for pair in pairs],
        tools=[pair.tools for pair in pairs],
        last_turn_only=True,
    )
    split = []
    for pair, (ids, mask) in zip(pairs, encoded, strict=True):
        if not any(mask):
            raise DataError(f"{pair.where or 'data'}: expected an answer with a token, got none. Correct the record.")
        start, end = mask.index(1), len(mask) - mask[::-1].index(1)
        split.append((ids[:start], ids[start:end]))
    return split


def _right_padded(pairs: Sequence[tuple[list[int], list[int]]], seq_len: int, pad_id: int) -> dict[str, np.ndarray]:
    shape = (len(pairs), 2, seq_len)
    arrays = {
        "tokens": np.full(shape, pad_id, np.int32),
        "positions": np.zeros(shape, np.int32),
        "segments": np.zeros(shape, np.int32),
        "last": np.zeros(shape[:2], np.int32),
    }
    places = np.arange(seq_len, dtype=np.int32)
    for row, pair in enumerate(pairs):
        for side, ids in enumerate(pair):
            length = len(ids)
            arrays["tokens"][row, side, :length] = ids
            arrays["positions"][row, side, :length] = places[:length]
            arrays["segments"][row, side, :length] = 1
            arrays["last"][row, side] = length - 1
    return arrays


def prompt_rows(records: Sequence[Record], tokenizer: Tokenizer, buckets: Sequence[int]) -> PromptRows:
    """Rows of prompts to answer, left-padded.

    Args:
        records: ``PromptRecord``s, or ``ResponseRecord``s whose response is taken as the known answer.
        tokenizer: gives the ids, up to the opening of the assistant's turn.
        buckets: allowed prompt lengths, ascending.

    Returns:
        ``tokens`` int32 (N, last bucket) left-padded, ``lengths`` int32 (N,).

    Raises:
        DataError: no records, records of another kind, or a prompt longer than the last bucket.
    """
    asked: list[PromptRecord | ResponseRecord] = require(
        records, (PromptRecord, ResponseRecord), used_for="prompt rows"
    )
    wheres = [record.where for record in asked]
    encoded = tokenizer.encode_prompts(
        [record.prompt_messages for record in asked], wheres=wheres, tools=[record.tools for record in asked]
    )
    tokens = np.full((len(asked), buckets[-1]), tokenizer.pad_id, np.int32)
    lengths = np.asarray([len(ids) for ids in encoded], np.int32)
    longest = int(lengths.argmax())
    if lengths[longest] > buckets[-1]:
        raise DataError(
            f"{wheres[longest] or 'data'}: expected prompts of at most {buckets[-1]} tokens (the last of "
            f"prompt_buckets), got {lengths[longest]} tokens here and {int((lengths > buckets[-1]).sum())} prompts too "
            f"long in all. Raise the last bucket to {lengths[longest]} or shorten the prompts."
        )
    for row, ids in enumerate(encoded):
        tokens[row, -len(ids) :] = ids
    num_tokens = int(lengths.sum())
    return PromptRows(
        {"tokens": tokens, "lengths": lengths},
        num_tokens,
        EncodeReport(len(asked), len(asked), padding_ratio=1.0 - num_tokens / tokens.size),
        buckets=tuple(buckets),
        prompts=tuple(record.prompt_text for record in asked),
        answers=tuple(r.answer if isinstance(r, PromptRecord) else r.response for r in asked),
    )


class _Dropped:
    """Counts records left out, by reason, and remembers where the first of each came from."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.examples: dict[str, str] = {}

    def add(self, reason: str, where: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        self.examples.setdefault(reason, where)

    def report(self, records: int, cut: int, *, padding_ratio: float = 0.0) -> EncodeReport:
        return EncodeReport(
            records, records - sum(self.counts.values()), cut, self.counts, self.examples, padding_ratio
        )


def _packed(pieces: Sequence[Piece], tokenizer: Tokenizer, seq_len: int, report: EncodeReport) -> Rows:
    arrays = pack_rows(pieces, seq_len, tokenizer.pad_id)
    num_tokens = sum(len(piece.tokens) for piece in pieces)
    padding_ratio = 1.0 - num_tokens / arrays["tokens"].size
    return Rows(arrays, num_tokens, replace(report, padding_ratio=padding_ratio))
