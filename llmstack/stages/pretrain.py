"""Pretraining: next-token prediction on every token of packed documents."""

from __future__ import annotations

from typing import Any, ClassVar

from llmstack.config.stages import PretrainConfig
from llmstack.data.row_tables import Rows
from llmstack.data.rows import lm_rows_from_text
from llmstack.stages.language import LanguageStage

_PROMPT_TOKENS = 12


class PretrainStage(LanguageStage):
    """A language model from plain text."""

    kind: ClassVar[str] = "pretrain"
    config: PretrainConfig

    def rows(self, source: Any) -> Rows:
        """Documents, packed.

        Args:
            source: a data option whose records are texts.
        """
        return lm_rows_from_text(self.records(source), self.context.tokenizer, self.config.seq_len)

    def sample_prompts(self, count: int) -> list[list[int]]:
        """The beginnings of evaluation documents, to be continued.

        Args:
            count: how many.
        """
        texts = [record.text for record in self.records(self.config.eval_data)]
        encoded = self.context.tokenizer.encode_batch(texts[: 4 * count])
        return [ids[:_PROMPT_TOKENS] for ids in encoded if len(ids) > _PROMPT_TOKENS][:count] or encoded[:count]
