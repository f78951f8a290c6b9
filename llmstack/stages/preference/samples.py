"""Which prompts a preference stage has answered at its evaluations."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from llmstack.data.bucket_rows import PromptRows
from llmstack.data.records import LabelledRecord, PreferenceRecord, PromptRecord, Record, ResponseRecord, required
from llmstack.data.rows import prompt_rows
from llmstack.data.tokenizer import Tokenizer
from llmstack.generation.pool import bucket_of
from llmstack.runtime.logging import get_logger


def prompt_table(
    records: Iterable[Record], tokenizer: Tokenizer, *, count: int, longest: int, path: str
) -> PromptRows | None:
    """The first different prompts of a data set that leave room for an answer.

    Args:
        records: anything with a prompt.
        tokenizer: gives the ids.
        count: how many prompts are wanted.
        longest: tokens there is room for; a longer prompt is left out with a warning.
        path: dotted path of the option, for the warning.

    Returns:
        The prompts, padded to one length; None when there are none.

    Raises:
        DataError: a record without a prompt.
    """
    asked: dict[object, PromptRecord] = {}
    kinds = (PromptRecord, ResponseRecord, PreferenceRecord, LabelledRecord)
    for record in required(records, kinds, used_for="samples") if count else ():
        known = record.answer if isinstance(record, PromptRecord) else None
        if isinstance(record, ResponseRecord):
            known = record.response
        prompt = PromptRecord(record.prompt, known, record.tools, where=record.where)
        asked.setdefault((prompt.prompt_messages, prompt.tools), prompt)
        if len(asked) == count:
            break
    wanted = list(asked.values())
    lengths = [
        len(tokenizer.encode_prompt(record.prompt_messages, where=record.where, tools=record.tools))
        for record in wanted
    ]
    fitting = [record for record, length in zip(wanted, lengths, strict=True) if length <= longest]
    if len(fitting) < len(wanted):
        get_logger("stages").warning(
            "%s: %d of %d prompts are left out, longer than the %d tokens that the context leaves beside "
            "max_new_tokens", path, len(wanted) - len(fitting), len(wanted), max(longest, 0),
        )  # fmt: skip
    if not fitting:
        return None
    most = int(np.max([length for length in lengths if length <= longest]))
    return prompt_rows(fitting, tokenizer, [bucket_of(most, longest)])
