"""Multiple choice: which of some continuations a language model finds likeliest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.jsonl import json_rows
from llmstack.data.records import Message, Record
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from llmstack.evaluation.likelihood import LikelihoodScorer, Target
from llmstack.evaluation.loading import Loaded
from llmstack.evaluation.questions import ON_THE_COMMAND_LINE
from llmstack.evaluation.report import Report
from llmstack.models.causal_lm import CausalLM


@dataclass(frozen=True)
class ChoiceRecord(Record):
    """A question and its possible answers.

    Attributes:
        prompt: what stands before each choice.
        choices: at least two.
        answer: index of the right one.
    """

    prompt: str
    choices: tuple[str, ...]
    answer: int


def read_choices(pattern: str, fields: Mapping[str, str]) -> list[ChoiceRecord]:
    """Questions from a JSON Lines file: objects with ``prompt``, ``choices`` and ``answer``, an index from 0.

    Args:
        pattern: a file or a glob.
        fields: our name of a field -> the file's, where they differ.

    Raises:
        DataError: a file that does not exist or holds no row, or a row that is not as above.
    """
    return [_record(row) for row in json_rows(pattern, FieldMap(fields, mapping=ON_THE_COMMAND_LINE))]


def _record(row: FieldRow) -> ChoiceRecord:
    choices, answer = row.texts("choices"), row.get("answer")
    if len(choices) < 2 or not all(choices):
        raise DataError(
            f"{row.where}: expected at least two choices with text in {row.name('choices')!r}, got {list(choices)}. "
            "Correct the line."
        )
    if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(choices):
        raise DataError(
            f"{row.where}: expected the index of the right choice, 0 to {len(choices) - 1}, in "
            f"{row.name('answer')!r}, got {answer!r}. Correct the line."
        )
    return ChoiceRecord(row.text("prompt"), choices, answer, where=row.where)


def continuation(tokenizer: Tokenizer, context: str, text: str) -> Target:
    """A text after another, cut where the second one's tokens begin.

    Both are encoded together, so that a space between them belongs to the token it belongs to in running text: spaces
    at the context's end count as the beginning of the text. Where the context's tokens are no prefix of both's, the
    token that reaches across belongs to the text.

    Args:
        tokenizer: the model's.
        context: may be empty: the text then starts a document.
        text: what follows it.
    """
    kept = context.rstrip(" ")
    prefix = list(tokenizer.prefix_ids)
    ids = [*prefix, *tokenizer.encode(context + text)]
    before = [*prefix, *tokenizer.encode(kept)]
    shared = next((i for i, (a, b) in enumerate(zip(before, ids, strict=False)) if a != b), min(len(before), len(ids)))
    if shared == 0:  # nothing stands before the first token: the end of another document does
        return Target([tokenizer.eos_id, *ids], 1)
    return Target(ids, min(shared, len(ids) - 1))


def chat_continuation(tokenizer: Tokenizer, record: ChoiceRecord, text: str) -> Target:
    """A text as the assistant's turn after the user's, without the token that ends the turn.

    Args:
        tokenizer: the model's.
        record: its prompt is the user's turn.
        text: what the assistant says.

    Raises:
        DataError: no chat template, or a control token in a turn.
    """
    before = tokenizer.encode_prompt([Message("user", record.prompt)], where=record.where)
    return Target([*before, *tokenizer.encode(text)], len(before))


def choice_accuracy(
    loaded: Loaded[CausalLM], records: Sequence[ChoiceRecord], *, chat: bool = False, delimiter: str = " "
) -> Report:
    """How often the right choice is the likeliest continuation.

    Three ways to compare choices of different length: by the sum of their tokens' log-probabilities, by its mean a
    token (Brown et al. 2020, section 2.4), and by its mean a UTF-8 byte, which does not depend on the tokenizer. Of
    equal choices the first counts.

    Args:
        loaded: the language model.
        records: the questions.
        chat: put the prompt into the chat template as a user's turn, and the choice as the assistant's.
        delimiter: stands between prompt and choice, when they are not turns.

    Returns:
        ``questions, accuracy, accuracy_per_token, accuracy_per_byte``; a row a question.

    Raises:
        DataError: a choice that does not fit into the model's context, or a chat that cannot be made.
    """
    targets = [
        chat_continuation(loaded.tokenizer, record, choice)
        if chat
        else continuation(loaded.tokenizer, record.prompt, delimiter + choice)
        for record in records
        for choice in record.choices
    ]
    places = [record.where for record in records for _ in record.choices]
    for target, where in zip(targets, places, strict=True):
        if len(target.ids) > loaded.context:
            raise DataError(
                f"{where}: expected prompt and choice within the model's context of {loaded.context} tokens, got "
                f"{len(target.ids)}. Shorten the prompt."
            )
    logp = [float(found.logp.astype(np.float64).sum()) for found in LikelihoodScorer(loaded.model).score(targets)]
    tokens = [len(target.ids) - target.start for target in targets]
    rows, at = [], 0
    for record in records:
        part = slice(at, at := at + len(record.choices))
        rows.append(_row(record, np.array(logp[part]), np.array(tokens[part])))
    numbers: dict[str, int | float] = {"questions": len(records)}
    for suffix in ("", "_per_token", "_per_byte"):
        numbers[f"accuracy{suffix}"] = float(np.mean([row[f"best{suffix}"] == row["answer"] for row in rows]))
    return Report("choice", numbers, rows)


def _row(record: ChoiceRecord, logp: np.ndarray, tokens: np.ndarray) -> dict[str, object]:
    num_bytes = np.array([len(choice.encode()) for choice in record.choices])
    return {
        "where": record.where,
        "answer": record.answer,
        "best": int(np.argmax(logp)),
        "best_per_token": int(np.argmax(logp / tokens)),
        "best_per_byte": int(np.argmax(logp / num_bytes)),
        "logp": logp.tolist(),
        "tokens": tokens.tolist(),
    }
