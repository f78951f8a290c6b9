"""Pretraining: next-token prediction on every token of packed documents."""

from __future__ import annotations

from itertools import islice
from typing import ClassVar, cast

from llmstack.config.data import SourceConfig
from llmstack.config.stages import PretrainConfig
from llmstack.data.corpus import Corpus
from llmstack.data.packed_rows import PackedRows
from llmstack.data.records import TextRecord, TokensRecord, require
from llmstack.stages.language import LanguageStage

_PROMPT_TOKENS = 12


class PretrainStage(LanguageStage):
    """A language model from plain text."""

    kind: ClassVar[str] = "pretrain"
    config: PretrainConfig

    def rows(self, source: SourceConfig) -> PackedRows:
        """Documents, packed.

        Args:
            source: a data option whose records are texts.
        """
        return cast(PackedRows, self.context.corpus.rows(self.config, source))

    def sample_prompts(self, count: int) -> list[list[int]]:
        """The beginnings of evaluation documents, to be continued.

        Args:
            count: how many.
        """
        return document_openings(self.context.corpus, self.config.eval_data, count)


def document_openings(corpus: Corpus, source: SourceConfig, count: int) -> list[list[int]]:
    """The first tokens of documents.

    Args:
        corpus: reads and encodes.
        source: a data option whose records are texts.
        count: how many.
    """
    if not count:
        return []
    records = require(islice(corpus.records(source), 4 * count), (TextRecord, TokensRecord), used_for="samples")
    texts = iter(corpus.tokenizer.encode_batch([r.text for r in records if isinstance(r, TextRecord)]))
    encoded = [r.ids.tolist() if isinstance(r, TokensRecord) else next(texts) for r in records]
    return [ids[:_PROMPT_TOKENS] for ids in encoded if len(ids) > _PROMPT_TOKENS][:count] or encoded[:count]
