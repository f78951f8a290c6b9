"""Supervised fine-tuning: next-token prediction on what the assistant says."""

from __future__ import annotations

from itertools import islice
from typing import Any, ClassVar, cast

from llmstack.config.data import SourceConfig
from llmstack.config.stages import SftConfig
from llmstack.data.corpus import Corpus
from llmstack.data.packed_rows import PackedRows
from llmstack.data.records import Message, MessagesRecord
from llmstack.stages.language import LanguageStage


class SftStage(LanguageStage):
    """A language model that answers."""

    kind: ClassVar[str] = "sft"
    config: SftConfig

    def rows(self, source: SourceConfig) -> PackedRows:
        """Conversations, packed; only the assistant's tokens are trained.

        Args:
            source: a data option whose records are prompts with responses, or messages.
        """
        return cast(PackedRows, self.context.corpus.rows(self.config, source))

    def sample_prompts(self, count: int) -> list[list[int]]:
        """Evaluation conversations up to the opening of their first answer.

        Args:
            count: how many.
        """
        return conversation_openings(self.context.corpus, self.config.eval_data, count)


def conversation_openings(corpus: Corpus, source: SourceConfig, count: int) -> list[list[int]]:
    """Conversations up to the opening of their first answer.

    Args:
        corpus: reads and encodes.
        source: a data option whose records are prompts with responses, or messages.
        count: how many.
    """
    encode = corpus.tokenizer.encode_prompt
    records = islice(corpus.records(source), count)
    return [encode(_question(record), where=record.where, tools=record.tools) for record in records]


def _question(record: Any) -> tuple[Message, ...]:
    """The turns before the first assistant turn."""
    turns = record.messages
    if isinstance(record, MessagesRecord):
        first = next((i for i, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
        return tuple(turns[:first])
    return tuple(turns[:1])
