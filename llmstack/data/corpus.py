"""From a data option to rows: sources are read and encoded once, kept in the cache and found there again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import tokenizers  # type: ignore[import-untyped]

from llmstack.config.blend import BlendConfig
from llmstack.config.data import SourceConfig
from llmstack.config.distill import DistillConfig
from llmstack.config.online import RolloutConfig
from llmstack.config.preference import PreferenceConfig
from llmstack.config.stages import BucketRowsConfig, PretrainConfig, RewardConfig, SftConfig, StageConfig
from llmstack.data.answer_rows import LabelledRows, PreferenceRows
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.cache import cached_folder
from llmstack.data.documents import Documents, open_documents, write_documents
from llmstack.data.encode import Kind
from llmstack.data.hashing import own_version, part_version
from llmstack.data.pack import Packing
from llmstack.data.packed_rows import PackedRows
from llmstack.data.parallel_encode import encode_records
from llmstack.data.records import Record
from llmstack.data.row_tables import Rows
from llmstack.data.rows import chat_rows, labelled_rows, pair_rows, prompt_rows, text_rows
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError, UserError
from llmstack.registry import SOURCES


class Blend:
    """The source of a blend's records: those of its parts, one part after the other.

    Args:
        config: the parts.
        seed: the recipe's.
    """

    def __init__(self, config: BlendConfig, *, seed: int) -> None:
        self._sources = [SOURCES.get(part.data.source)(part.data, seed=seed) for part in config.parts.values()]

    def records(self) -> Iterator[Record]:
        """Every record of every part."""
        return chain.from_iterable(source.records() for source in self._sources)

    def fingerprint(self) -> str:
        """Hash of the parts' fingerprints."""
        return _digest([source.fingerprint() for source in self._sources])


@dataclass(frozen=True)
class Corpus:
    """Makes rows of data options for one tokenizer.

    Attributes:
        tokenizer: gives the ids.
        seed: the recipe's; sources and packing draw from it.
        workers: processes that encode; None: none for small data, one a core for large.
    """

    tokenizer: Tokenizer
    seed: int
    workers: int | None = field(default=None)

    def rows(self, stage: StageConfig, source: SourceConfig, *, evaluation: bool = False) -> Rows:
        """Rows as a kind of stage reads them: the one place that knows which encoding and which options it uses.

        Args:
            stage: the stage's options.
            source: its ``data``, one of the parts of that, or its ``eval_data``.
            evaluation: the rows are for evaluation, for which a stage may take the first records only.

        Raises:
            UserError: the options are none of a built-in kind or a subclass of one.
            DataError: the data does not fit the stage.
        """
        match stage:
            case PretrainConfig():
                return self.text(source, stage.seq_len, packing=stage.packing)
            case SftConfig() | DistillConfig():
                kind = stage.data_kind if isinstance(stage, DistillConfig) else "chat"
                ratio, packing = stage.max_untrained_ratio, stage.packing
                return self.packed(source, kind, stage.seq_len, max_untrained_ratio=ratio, packing=packing)
            case PreferenceConfig() if not stage.loss.paired:
                return self.labelled(stage, source)
            case RewardConfig() | PreferenceConfig():
                return self.pairs(stage, source)
            case RolloutConfig():
                at_most = stage.eval_prompts if evaluation else None
                return self.prompts(source, stage.prompt_buckets, at_most=at_most)
        raise UserError(
            f"stage kind {stage.kind}: expected options derived from those of a built-in kind, whose encoding we know, "
            f"got {type(stage).__name__}. Override the stage's `rows`, or derive its options."
        )

    def packed(
        self,
        source: SourceConfig,
        kind: Literal["text", "chat"],
        seq_len: int,
        *,
        max_untrained_ratio: float,
        packing: Packing = "best_fit",
    ) -> PackedRows:
        """Rows of plain documents or of conversations, as an option says.

        Args:
            source: a data option.
            kind: what its records are.
            seq_len: tokens T in a row.
            max_untrained_ratio: chat: share of conversations without a trained token above which the data is refused.
            packing: how rows are filled.
        """
        if kind == "text":
            return self.text(source, seq_len, packing=packing)
        return self.chat(source, seq_len, max_untrained_ratio=max_untrained_ratio, packing=packing)

    def text(self, source: SourceConfig, seq_len: int, *, packing: Packing = "best_fit") -> PackedRows:
        """Rows of plain documents (see :func:`llmstack.data.rows.text_rows`).

        Args:
            source: a data option whose records are texts.
            seq_len: tokens T in a row.
            packing: how rows are filled.
        """
        documents = self.documents(source, "text")
        return text_rows(documents, seq_len, self.tokenizer.pad_id, packing=packing, seed=self.seed)

    def chat(
        self, source: SourceConfig, seq_len: int, *, max_untrained_ratio: float, packing: Packing = "best_fit"
    ) -> PackedRows:
        """Rows of conversations (see :func:`llmstack.data.rows.chat_rows`).

        Args:
            source: a data option whose records are prompts with responses, or messages.
            seq_len: tokens T in a row.
            max_untrained_ratio: share of conversations without a trained token above which the data is refused.
            packing: how rows are filled.
        """
        return chat_rows(
            self.documents(source, "chat"),
            seq_len,
            self.tokenizer.pad_id,
            max_untrained_ratio=max_untrained_ratio,
            packing=packing,
            seed=self.seed,
        )

    def pairs(self, stage: BucketRowsConfig, source: SourceConfig) -> PreferenceRows:
        """Rows of preference pairs (see :func:`llmstack.data.rows.pair_rows`).

        Args:
            stage: the stage's options.
            source: a data option whose records are preferences.
        """
        documents, pad_id = self.documents(source, "pairs"), self.tokenizer.pad_id
        ratio, buckets = stage.max_dropped_ratio, stage.length_buckets
        return pair_rows(documents, stage.seq_len, pad_id, max_dropped_ratio=ratio, buckets=buckets)

    def labelled(self, stage: BucketRowsConfig, source: SourceConfig) -> LabelledRows:
        """Rows of labelled answers (see :func:`llmstack.data.rows.labelled_rows`).

        Args:
            stage: the stage's options.
            source: a data option whose records are labelled answers or preferences.
        """
        documents, pad_id = self.documents(source, "labelled"), self.tokenizer.pad_id
        ratio, buckets = stage.max_dropped_ratio, stage.length_buckets
        return labelled_rows(documents, stage.seq_len, pad_id, max_dropped_ratio=ratio, buckets=buckets)

    def prompts(self, source: SourceConfig, buckets: tuple[int, ...], *, at_most: int | None = None) -> PromptRows:
        """Rows of prompts (see :func:`llmstack.data.rows.prompt_rows`); these are not kept in the cache.

        Args:
            source: a data option whose records are prompts.
            buckets: allowed prompt lengths.
            at_most: take the first so many records; None takes all.
        """
        return prompt_rows(list(islice(self.records(source), at_most)), self.tokenizer, buckets)

    def records(self, source: SourceConfig) -> Iterator[Record]:
        """Records of a data option.

        Args:
            source: the option.
        """
        yield from SOURCES.get(source.source)(source, seed=self.seed).records()

    def documents(self, source: SourceConfig, kind: Kind) -> Documents:
        """The encoded documents of a data option, from the cache when they are there.

        Args:
            source: the option.
            kind: how its records are encoded.

        Raises:
            DataError: a record is wrong, or there is none.
        """

        made = SOURCES.get(source.source)(source, seed=self.seed)
        if kind == "text" and hasattr(made, "mapped"):
            documents: Documents = made.mapped(self.tokenizer)
            return documents
        encoded = False

        def build(folder: Path) -> None:
            nonlocal encoded
            encoded = True
            label = f"encoding {source.source}"
            chunks = encode_records(self.records(source), kind, self.tokenizer, workers=self.workers, show=label)
            write_documents(folder, chunks, self.tokenizer.vocab_size)

        documents = open_documents(cached_folder("documents", self.key(source, kind), build))
        documents.encoded_now = encoded
        if not documents.losses.records:
            raise DataError("data: expected at least one record, got an empty data set. Check the source's options.")
        return documents

    def key(self, source: SourceConfig, kind: Kind) -> str:
        """Hash of everything the encoded documents of a data option depend on.

        Args:
            source: the option.
            kind: how its records are encoded.
        """
        part = SOURCES.get(source.source)
        return _digest(
            {
                "version": [own_version(), tokenizers.__version__],
                "kind": kind,
                "source": source.model_dump(mode="json", by_alias=True),
                "data": part(source, seed=self.seed).fingerprint(),
                "code": part_version(part),
                "seed": self.seed,
                "tokenizer": self.tokenizer.fingerprint(),
            }
        )


def _digest(value: Mapping[str, object] | list[str]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
