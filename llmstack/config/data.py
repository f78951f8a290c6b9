"""Data sources and the tokenizer. A source's own options live in a class its registry entry names."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.markers import Files, Folder, FunctionRef, PathRef, TokenFiles
from llmstack.config.named import NameIn, Registered
from llmstack.registry import SOURCES

MAX_RECORD_BYTES = 64_000_000
"""How long one record may be unless a recipe says otherwise: far above any document, far below what fills memory."""


RecordKind: TypeAlias = Literal["text", "prompt_response", "messages", "preference", "labelled", "prompt"]
"""What a row of named fields holds."""


class SourceConfig(Strict):
    """Base of every source's options; subclasses add theirs."""

    source: Annotated[str, NameIn(SOURCES)]
    """Name in the source registry."""


AnySource: TypeAlias = Annotated[SourceConfig, Registered(SOURCES, "source", without=("blend",))]
"""Options of any registered source of records."""

AnyCorpus: TypeAlias = Annotated[SourceConfig, Registered(SOURCES, "source")]
"""Options of any registered source, or of a blend of several."""


class TextFileConfig(SourceConfig):
    """Plain text files, one document a file or one a blank-line-separated block."""

    path: Files
    """A file or a glob, relative to the working directory; .gz and .zst are unpacked."""
    split_documents: Literal["file", "blank_line"] = "file"
    """What one document is."""
    max_record_bytes: int = Field(default=MAX_RECORD_BYTES, gt=0)
    """Bytes above which a single document is refused, so that a damaged or hostile file cannot fill the memory."""


class RowsConfig(SourceConfig):
    """Options of every source of rows with named fields."""

    record: RecordKind
    """Which record kind each row holds."""
    fields: dict[str, str] = Field(default_factory=dict)
    """Our field names -> the data's: a name, a path (``message.content``) or a template (``{question} {context}``)."""
    max_record_bytes: int = Field(default=MAX_RECORD_BYTES, gt=0)
    """Bytes above which a single row is refused, so that a damaged or hostile file cannot fill the memory."""


class JsonlConfig(RowsConfig):
    """One JSON object a line."""

    path: Files
    """A file or a glob, relative to the working directory; .gz and .zst are unpacked."""


class ParquetConfig(RowsConfig):
    """Parquet files."""

    path: Files
    """A file or a glob, relative to the working directory."""


class HfDatasetConfig(RowsConfig):
    """A Hugging Face dataset on this machine; nothing is ever downloaded."""

    path: Folder
    """What `datasets` saved with save_to_disk, or a folder of .parquet and .jsonl files."""
    split: str | None = Field(default=None, min_length=1)
    """Which split; null when the folder has only one."""


class MindRecordConfig(RowsConfig):
    """MindRecord files."""

    path: Files
    """A file or a glob, relative to the working directory; the .db file of each lies beside it."""


class CallableConfig(SourceConfig):
    """What a Python function yields."""

    function: FunctionRef
    """``package.module:function``, of a module beside the recipe or an installed one."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the function."""
    record: RecordKind | None = None
    """Which record kind the mappings are that it yields; null: it yields records alone."""
    fields: dict[str, str] = Field(default_factory=dict)
    """Our field names -> those of the mappings, as for jsonl."""

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.fields and self.record is None:
            reject(self, {"fields": "expected nothing because `record` is null, got names. Set `record`."})
        return self


class MegatronConfig(SourceConfig):
    """Token ids in Megatron's format, a .bin and an .idx file."""

    path: TokenFiles
    """What both files' names have before .bin and .idx."""


class ConcatConfig(SourceConfig):
    """Several sources, one after the other."""

    of: dict[str, AnySource] = Field(min_length=1)
    """The sources by name, in order."""


class ArithmeticConfig(SourceConfig):
    """Sums ``a+b=`` of two numbers with their results, made on the spot."""

    split: Literal["train", "policy", "eval"]
    """train: for supervised training; policy: prompts kept for reinforcement learning; eval: never trained on."""
    digits: int = Field(default=2, gt=0, le=3)
    """Most digits of a number; smaller numbers are among them."""
    limit: int | None = Field(default=None, gt=0)
    """Keep the first N sums after the seeded shuffle; null keeps all."""


class StdlibConfig(SourceConfig):
    """The Python standard library's own documentation, read with ``ast`` on this machine."""

    split: Literal["train", "policy", "eval"]
    """train: seen by SFT and the reward model; policy: prompts kept for PPO; eval: never trained on."""
    limit: int | None = Field(default=None, gt=0)
    """Keep the first N records after the seeded shuffle; null keeps all."""


class StdlibSignaturesConfig(StdlibConfig):
    """The standard library's functions: signatures as prompts, summaries as answers."""

    max_prompt_chars: int | None = Field(default=None, gt=0)
    """Leave out longer signatures, so that prompts fit a small bucket; null keeps all."""


class TokenizerConfig(Strict):
    """A byte-level BPE trained for this recipe, or one read from a folder."""

    kind: Literal["bpe", "folder"]
    """bpe: train on ``data``; folder: read ``path``."""
    vocab_size: int | None = Field(default=None, ge=262)
    """bpe: size including the 256 bytes and the special tokens."""
    data: AnySource | None = None
    """bpe: what to train on."""
    path: Folder | None = None
    """folder: a Hugging Face tokenizer folder (tokenizer.json, tokenizer_config.json)."""
    chat_template: Annotated[str, PathRef("files", unless="chatml")] = "chatml"
    """``chatml`` or a path to a Jinja file; ``folder`` tokenizers keep their own when they have one."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        needed, foreign = {"bpe": (("vocab_size", "data"), ("path",)), "folder": (("path",), ("vocab_size", "data"))}[
            self.kind
        ]
        problems = {
            key: f"expected a value because `kind` is {self.kind}, got nothing. Add `{key}:`."
            for key in needed
            if getattr(self, key) is None
        }
        problems |= {
            key: f"expected nothing because `kind` is {self.kind}, got a value. Remove it, or change `kind`."
            for key in foreign
            if getattr(self, key) is not None
        }
        reject(self, problems)
        return self
