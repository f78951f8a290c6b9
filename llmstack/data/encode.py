"""Records to token ids: one function a kind of training data, each working on a chunk of records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from llmstack.data.documents import Encoded, Losses
from llmstack.data.records import (
    LabelledRecord,
    Message,
    MessagesRecord,
    PreferenceRecord,
    Record,
    ResponseRecord,
    TextRecord,
    TokensRecord,
    require,
)
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError

Kind: TypeAlias = Literal["text", "chat", "pairs", "labelled"]


def encode_text(records: Sequence[Record], tokenizer: Tokenizer) -> Encoded:
    """Documents whose every token is trained: BOS (when the tokenizer has one), the text, the end-of-text token.

    A document that is token ids already stays as it is.

    Args:
        records: ``TextRecord``s or ``TokensRecord``s; one without text is left out and counted.
        tokenizer: gives the ids.

    Raises:
        DataError: records of another kind, or ids beyond the tokenizer's vocabulary.
    """
    documents: list[TextRecord | TokensRecord] = require(
        records, (TextRecord, TokensRecord), used_for="language-model rows"
    )
    losses = Losses(records=len(documents))
    texts = iter(tokenizer.encode_batch([d.text for d in documents if isinstance(d, TextRecord)]))
    kept: list[Sequence[int] | np.ndarray] = []
    wheres = []
    for document in documents:
        ids = document.ids if isinstance(document, TokensRecord) else next(texts)
        if not len(ids):
            losses.add("empty", document.where)
            continue
        if isinstance(document, TokensRecord):
            check_vocabulary(int(document.ids.max()), tokenizer, document.where)
        else:
            ids = [*tokenizer.prefix_ids, *ids, tokenizer.eos_id]
        kept.append(ids)
        wheres.append(document.where)
    return Encoded.of(kept, None, wheres, losses)


def check_vocabulary(largest: int, tokenizer: Tokenizer, where: str) -> None:
    """Refuse ids that a tokenizer does not know.

    Args:
        largest: the largest id.
        tokenizer: the recipe's.
        where: where it comes from, for the message.

    Raises:
        DataError: it is no id of the tokenizer.
    """
    if largest >= tokenizer.vocab_size:
        raise DataError(
            f"{where}: expected ids below {tokenizer.vocab_size} (the tokenizer's vocabulary), got {largest}. "
            "Name the tokenizer the file was made with."
        )


def encode_chat(records: Sequence[Record], tokenizer: Tokenizer) -> Encoded:
    """Conversations of which what the assistant says is trained, with the token that ends its turn.

    Args:
        records: ``ResponseRecord``s or ``MessagesRecord``s.
        tokenizer: gives ids and assistant mask.

    Raises:
        DataError: records of another kind, or a conversation the chat template refuses.
    """
    samples: list[ResponseRecord | MessagesRecord] = require(
        records, (ResponseRecord, MessagesRecord), used_for="chat rows"
    )
    wheres = [sample.where for sample in samples]
    encoded = tokenizer.encode_chats(
        [sample.messages for sample in samples], wheres=wheres, tools=[sample.tools for sample in samples]
    )
    return Encoded.of([ids for ids, _ in encoded], [mask for _, mask in encoded], wheres, Losses(records=len(samples)))


def encode_pairs(records: Sequence[Record], tokenizer: Tokenizer) -> Encoded:
    """Preference pairs, two documents each: prompt and chosen answer, prompt and rejected answer.

    The mask is 1 on the answer with the token that ends it, the document's last. A pair of equal answers is left out.

    Args:
        records: ``PreferenceRecord``s.
        tokenizer: gives ids and assistant mask.

    Raises:
        DataError: records of another kind, or an answer without a token.
    """
    pairs = require(records, (PreferenceRecord,), used_for="preference rows")
    chosen = prompt_and_answer(tokenizer, pairs, [pair.chosen for pair in pairs])
    rejected = prompt_and_answer(tokenizer, pairs, [pair.rejected for pair in pairs])
    losses = Losses(records=len(pairs))
    documents, masks, kept, margins = [], [], [], []
    for pair, good, bad in zip(pairs, chosen, rejected, strict=True):
        if good[1] == bad[1]:
            losses.add("equal_answers", pair.where)
            continue
        for prompt, answer in (good, bad):
            documents.append(prompt + answer)
            masks.append([0] * len(prompt) + [1] * len(answer))
            kept.append(pair.where)
        margins.append(pair.margin)
    return Encoded.of(documents, masks, kept, losses, margins)


def encode_labelled(records: Sequence[Record], tokenizer: Tokenizer) -> Encoded:
    """Answers with a label, a document each: the prompt and the answer, masked as those of :func:`encode_pairs`.

    A preference pair gives two of them, its chosen answer as a good one and its rejected answer as a bad one.

    Args:
        records: ``LabelledRecord``s and ``PreferenceRecord``s.
        tokenizer: gives ids and assistant mask.

    Raises:
        DataError: records of another kind, or an answer without a token.
    """
    wanted: list[LabelledRecord | PreferenceRecord] = require(
        records, (LabelledRecord, PreferenceRecord), used_for="rows of labelled answers"
    )
    judged: list[tuple[LabelledRecord | PreferenceRecord, str, float]] = []
    for record in wanted:
        if isinstance(record, LabelledRecord):
            judged.append((record, record.response, float(record.label)))
        else:
            judged += [(record, record.chosen, 1.0), (record, record.rejected, 0.0)]
    encoded = prompt_and_answer(tokenizer, [record for record, _, _ in judged], [answer for _, answer, _ in judged])
    losses, kept = Losses(records=len(judged)), []
    for place, (record, _, label) in enumerate(judged):
        # the two answers of a pair lie side by side, the chosen one first
        if isinstance(record, LabelledRecord) or encoded[place] != encoded[place + (1 if label else -1)]:
            kept.append(place)
        else:
            losses.add("equal_answers", record.where)
    return Encoded.of(
        [encoded[place][0] + encoded[place][1] for place in kept],
        [[0] * len(encoded[place][0]) + [1] * len(encoded[place][1]) for place in kept],
        [judged[place][0].where for place in kept],
        losses,
        [judged[place][2] for place in kept],
    )


ENCODERS: dict[Kind, Callable[[Sequence[Record], Tokenizer], Encoded]] = {
    "text": encode_text,
    "chat": encode_chat,
    "pairs": encode_pairs,
    "labelled": encode_labelled,
}


def prompt_and_answer(
    tokenizer: Tokenizer, asked: Sequence[PreferenceRecord | LabelledRecord], answers: Sequence[str]
) -> list[tuple[list[int], list[int]]]:
    """The turns of a prompt and the assistant's behind them, as a reward model reads them.

    Args:
        tokenizer: gives ids and assistant mask.
        asked: their prompts are taken.
        answers: one for each, e.g. the chosen ones.

    Returns:
        For each the ids in front of the answer, and the answer's with the token that ends it.

    Raises:
        DataError: an answer without a token, or a turn that the tokenizer refuses.
    """
    encoded = tokenizer.encode_chats(
        [(*item.prompt_messages, Message("assistant", answer)) for item, answer in zip(asked, answers, strict=True)],
        wheres=[item.where for item in asked],
        tools=[item.tools for item in asked],
        last_turn_only=True,
    )
    split = []
    for item, (ids, mask) in zip(asked, encoded, strict=True):
        if not any(mask):
            raise DataError(f"{item.where or 'data'}: expected an answer with a token, got none. Correct the record.")
        start, end = mask.index(1), len(mask) - mask[::-1].index(1)
        split.append((ids[:start], ids[start:end]))
    return split
