"""Rows of tokens from encoded documents: what is kept, what is cut and what is left out is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from llmstack.data.answer_rows import AnswerRows, LabelledRows, PreferenceRows, Spans
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.documents import Documents, Losses
from llmstack.data.pack import Packed, Packing, cut_documents, cut_stream, pack, truncate_documents
from llmstack.data.packed_rows import PackedRows
from llmstack.data.records import PromptRecord, Record, ResponseRecord, require
from llmstack.data.row_tables import EncodeReport
from llmstack.data.token_space import TokenSpace
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError

RowsT = TypeVar("RowsT", bound=AnswerRows)


def text_rows(
    documents: Documents, seq_len: int, pad_id: int, *, packing: Packing = "best_fit", seed: int = 0
) -> PackedRows:
    """Rows for training on every token of plain documents.

    A document longer than a row is cut into pieces without losing a label. ``best_fit`` keeps the pieces of a document
    whole and leaves a little padding; ``sequential`` puts documents one after the other in a seeded order and cuts
    wherever a row is full, without padding; ``none`` gives each piece a row.

    Args:
        documents: encoded as ``text``.
        seq_len: tokens T in a row.
        pad_id: id that fills rows.
        packing: how rows are filled.
        seed: of the order of documents, where it matters.

    Raises:
        DataError: there is no document.
    """
    losses = documents.losses
    if not len(documents):
        where = next(iter(losses.examples.values()), "data")
        raise DataError(f"{where}: expected text, got only empty documents. Check the source.")
    if packing == "sequential":
        packed = cut_stream(documents.bounds, seq_len, _shuffled(len(documents), seed))
    else:
        pieces = cut_documents(documents.bounds, seq_len)
        packed = pack(pieces, seq_len, packing, _order(len(pieces), packing, seed))
    return _packed_rows(documents, packed, seq_len, pad_id, losses)


def chat_rows(
    documents: Documents,
    seq_len: int,
    pad_id: int,
    *,
    max_untrained_ratio: float,
    packing: Packing = "best_fit",
    seed: int = 0,
) -> PackedRows:
    """Rows for training on what the assistant says.

    A conversation longer than ``seq_len`` keeps its beginning and is counted as cut; its last answer then has no ending
    token, and none is made up. A conversation in which nothing is left to train is left out and counted.

    Args:
        documents: encoded as ``chat``.
        seq_len: tokens T in a row.
        pad_id: id that fills rows.
        max_untrained_ratio: share of conversations without a trained token above which the data is refused.
        packing: how rows are filled; a conversation is never cut for it.
        seed: of the order of conversations, where it matters.

    Raises:
        DataError: too many conversations without a trained token.
    """
    pieces = truncate_documents(documents, seq_len)
    trained = pieces.targets > 0
    losses = Losses(documents.losses.records, dict(documents.losses.counts), dict(documents.losses.examples))
    for number in np.flatnonzero(~trained).tolist():
        span = slice(documents.bounds[number], documents.bounds[number + 1])
        answered = documents.mask is not None and documents.mask[span].any()
        losses.add("prompt_fills_row" if answered else "no_assistant_token", documents.where(number))
    _refuse_untrained(losses, len(documents), int(trained.sum()), max_untrained_ratio)
    cut = int((documents.lengths[trained] > seq_len).sum())
    kept = pieces.take(np.flatnonzero(trained))
    packed = pack(kept, seq_len, packing, _order(len(kept), packing, seed))
    return _packed_rows(documents, packed, seq_len, pad_id, losses, cut=cut)


def _refuse_untrained(losses: Losses, total: int, kept: int, max_untrained_ratio: float) -> None:
    count = total - kept
    if kept and count <= max_untrained_ratio * total:
        return
    reason, where = next(iter(losses.examples.items()))
    why = {
        "prompt_fills_row": "its prompt alone fills the row; raise seq_len or shorten it",
        "no_assistant_token": "it has no assistant turn with text; add one or remove the sample",
    }[reason]
    raise DataError(
        f"{where or 'data'}: expected at most {max_untrained_ratio:.0%} of the samples to have no trained token "
        f"(max_untrained_ratio), got {count} of {total}. In this one {why}."
    )


def pair_rows(
    documents: Documents,
    seq_len: int,
    pad_id: int,
    *,
    max_dropped_ratio: float,
    buckets: Sequence[int] | None = None,
) -> PreferenceRows:
    """Rows for a reward model: prompt and answer up to the token that ends it, right-padded.

    Both answers of a pair see the same prompt tokens: when one is too long for the row, the beginning of the prompt
    goes. An answer that leaves no room for a prompt token is never cut; its pair is left out and counted, as is a pair
    of equal answers.

    Args:
        documents: encoded as ``pairs``.
        seq_len: tokens T of the longest row.
        pad_id: id that fills rows.
        max_dropped_ratio: share of pairs left out above which the data is refused.
        buckets: allowed row lengths, ascending up to ``seq_len``; None allows ``seq_len`` alone.

    Raises:
        DataError: no pair that fits, or too many that do not.
    """
    return _answer_rows(PreferenceRows, documents, seq_len, pad_id, max_dropped_ratio, buckets)


def labelled_rows(
    documents: Documents,
    seq_len: int,
    pad_id: int,
    *,
    max_dropped_ratio: float,
    buckets: Sequence[int] | None = None,
) -> LabelledRows:
    """Rows of single answers with a label, cut and left out as those of :func:`pair_rows`.

    Args:
        documents: encoded as ``labelled``.
        seq_len: tokens T of the longest row.
        pad_id: id that fills rows.
        max_dropped_ratio: share of answers left out above which the data is refused.
        buckets: allowed row lengths, ascending up to ``seq_len``; None allows ``seq_len`` alone.

    Raises:
        DataError: no answer that fits, or too many that do not, or all answers have the same label.
    """
    rows = _answer_rows(LabelledRows, documents, seq_len, pad_id, max_dropped_ratio, buckets)
    if (rows.value == rows.value[0]).all():
        only = "good" if rows.value[0] else "bad"
        raise DataError(
            f"{documents.where(0) or 'data'}: expected good answers and bad ones, got {len(rows)} that are all {only}. "
            "Add some of the other label, or learn from good ones alone with sft."
        )
    return rows


def _answer_rows(
    kind: type[RowsT],
    documents: Documents,
    seq_len: int,
    pad_id: int,
    max_dropped_ratio: float,
    buckets: Sequence[int] | None,
) -> RowsT:
    shape = (-1, len(kind.sides))
    start, length = documents.bounds[:-1].reshape(shape), documents.lengths.reshape(shape)
    answer = answer_lengths(documents).reshape(shape)
    room = seq_len - answer.max(axis=1, initial=0)
    losses = Losses(documents.losses.records, dict(documents.losses.counts), dict(documents.losses.examples))
    for number in np.flatnonzero(room < 1).tolist():
        losses.add("answer_too_long", documents.where(len(kind.sides) * number))
    fits = np.flatnonzero(room >= 1)
    _refuse_dropped(losses, len(fits), max_dropped_ratio, seq_len, noun=kind.noun)
    gone = np.maximum(length - answer - room[:, None], 0)[fits]
    kept = (length[fits] - gone).astype(np.int32)
    padding = 1.0 - float(kept.sum()) / (kept.size * seq_len)
    return kind(
        TokenSpace([documents]),
        Spans(start[fits] + gone, kept, answer[fits].astype(np.int32)),
        documents.margins[fits],
        buckets=buckets or (seq_len,),
        pad_id=pad_id,
        report=_report(losses, len(fits), cut=int((gone > 0).any(axis=1).sum()), padding_ratio=padding),
    )


def _refuse_dropped(losses: Losses, kept: int, max_dropped_ratio: float, seq_len: int, *, noun: str) -> None:
    count = losses.records - kept
    if kept and count <= max_dropped_ratio * losses.records:
        return
    reason, where = next(iter(losses.examples.items()))
    why = {"equal_answers": "both are the same", "answer_too_long": "one leaves no room for a prompt"}[reason]
    raise DataError(
        f"{where or 'data'}: expected at most {max_dropped_ratio:.0%} of the {noun} to be unusable, with equal "
        f"answers or one that fills seq_len {seq_len} (max_dropped_ratio), got {count} of {losses.records}. Here {why}."
        " Raise seq_len or change the data."
    )


def answer_lengths(documents: Documents) -> np.ndarray:
    """Tokens of the answer at the end of each document.

    Args:
        documents: encoded as ``pairs``.

    Returns:
        int64 (M,).
    """
    if documents.mask is None or not len(documents):
        return np.zeros(len(documents), np.int64)
    return np.add.reduceat(documents.mask, documents.bounds[:-1], dtype=np.int64)


def prompt_rows(records: Sequence[Record], tokenizer: Tokenizer, buckets: Sequence[int]) -> PromptRows:
    """Rows of prompts to answer, left-padded.

    Args:
        records: ``PromptRecord``s, or ``ResponseRecord``s whose response is taken as the known answer.
        tokenizer: gives the ids, up to the opening of the assistant's turn.
        buckets: allowed prompt lengths, ascending.

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
    return PromptRows(
        tokens,
        lengths,
        EncodeReport(len(asked), len(asked), padding_ratio=1.0 - int(lengths.sum()) / tokens.size),
        buckets=tuple(buckets),
        prompts=tuple(record.prompt_text for record in asked),
        answers=tuple(r.answer if isinstance(r, PromptRecord) else r.response for r in asked),
        wheres=tuple(wheres),
    )


def _order(count: int, packing: Packing, seed: int) -> np.ndarray | None:
    return None if packing == "best_fit" else _shuffled(count, seed)


def _shuffled(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng((seed, count)).permutation(count)


def _packed_rows(
    documents: Documents, packed: Packed, seq_len: int, pad_id: int, losses: Losses, *, cut: int | None = None
) -> PackedRows:
    if cut is None:
        cut = int((documents.lengths > seq_len).sum())
    padding = 1.0 - float(packed.pieces.length.sum(dtype=np.int64)) / ((len(packed.bounds) - 1) * seq_len)
    report = _report(losses, losses.records - sum(losses.counts.values()), cut=cut, padding_ratio=padding)
    return PackedRows(TokenSpace([documents]), packed, seq_len, pad_id, report)


def _report(losses: Losses, kept: int, *, cut: int, padding_ratio: float) -> EncodeReport:
    return EncodeReport(losses.records, kept, cut, losses.counts, losses.examples, padding_ratio)
