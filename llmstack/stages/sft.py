"""Supervised fine-tuning: next-token prediction on what the assistant says."""

from __future__ import annotations

from typing import Any, ClassVar

from llmstack.config.stages import SftConfig
from llmstack.data.records import Message, MessagesRecord
from llmstack.data.row_tables import Rows
from llmstack.data.rows import lm_rows_from_chat
from llmstack.stages.language import LanguageStage


class SftStage(LanguageStage):
    """A language model that answers."""

    kind: ClassVar[str] = "sft"
    config: SftConfig

    def rows(self, source: Any) -> Rows:
        """Conversations, packed; only the assistant's tokens are trained.

        Args:
            source: a data option whose records are prompts with responses, or messages.
        """
        records = self.records(source)
        return lm_rows_from_chat(records, self.context.tokenizer, self.config.seq_len, self.config.max_untrained_ratio)

    def sample_prompts(self, count: int) -> list[list[int]]:
        """Evaluation conversations up to the opening of their first answer.

        Args:
            count: how many.
        """
        records = self.records(self.config.eval_data)[:count]
        return [
            self.context.tokenizer.encode_prompt(_question(record), where=record.where, tools=record.tools)
            for record in records
        ]


def _question(record: Any) -> tuple[Message, ...]:
    """The turns before the first assistant turn."""
    turns = record.messages
    if isinstance(record, MessagesRecord):
        first = next((i for i, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
        return tuple(turns[:first])
    return tuple(turns[:1])
