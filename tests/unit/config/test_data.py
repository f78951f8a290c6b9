from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from llmstack.config.data import (
    AnySource,
    CallableConfig,
    ConcatConfig,
    HfDatasetConfig,
    JsonlConfig,
    MegatronConfig,
    ParquetConfig,
    StdlibConfig,
    StdlibSignaturesConfig,
    TextFileConfig,
    TokenizerConfig,
)

SOURCE = TypeAdapter(AnySource)
TRAIN_ON = {"source": "stdlib_docs", "split": "train"}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"source": "text", "path": "a.txt"}, TextFileConfig),
        ({"source": "jsonl", "path": "a.jsonl", "record": "prompt", "fields": {"prompt": "question"}}, JsonlConfig),
        ({"source": "parquet", "path": "a.parquet", "record": "preference"}, ParquetConfig),
        ({"source": "hf_dataset", "path": "a", "record": "messages"}, HfDatasetConfig),
        ({"source": "callable", "function": "a:b", "arguments": {"c": [1]}}, CallableConfig),
        ({"source": "megatron", "path": "a/tokens"}, MegatronConfig),
        ({"source": "concat", "of": {"a": {"source": "text", "path": "a.txt"}}}, ConcatConfig),
        ({"source": "stdlib_docs", "split": "eval", "limit": 3}, StdlibConfig),
        ({"source": "stdlib_summaries", "split": "eval", "max_prompt_chars": 80}, StdlibSignaturesConfig),
    ],
)
def test_each_source_has_its_options(value, kind):
    assert type(SOURCE.validate_python(value)) is kind


@pytest.mark.parametrize(
    "value",
    [
        {"source": "text", "path": "a.txt", "split": "train"},
        {"source": "jsonl", "path": "a.jsonl"},
        {"source": "stdlib_docs", "split": "train", "limit": 0},
        {"source": "parquet", "path": "a", "record": "text", "split": "train"},
        {"source": "hf_dataset", "path": "a", "record": "text", "split": ""},
        {"source": "callable", "function": "a:b", "fields": {"text": "c"}},
        {"source": "jsonl", "path": "a.jsonl", "record": "text", "max_record_bytes": 0},
        {"source": "concat", "of": {}},
        {"source": "concat", "of": {"a": {"source": "text"}}},
    ],
)
def test_options_of_another_source_are_refused(value):
    with pytest.raises(ValidationError):
        SOURCE.validate_python(value)


def test_decoding_a_path_does_not_look_at_the_disk():
    assert SOURCE.validate_python({"source": "text", "path": "not/there.txt"}).path == "not/there.txt"


def test_a_tokenizer_is_trained_or_read():
    trained = TokenizerConfig.model_validate({"kind": "bpe", "vocab_size": 512, "data": TRAIN_ON})
    assert trained.chat_template == "chatml"
    assert TokenizerConfig.model_validate({"kind": "folder", "path": "x"}).path == "x"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"kind": "bpe", "vocab_size": 512}, "because `kind` is bpe, got nothing. Add `data:`."),
        ({"kind": "bpe", "data": TRAIN_ON}, "got nothing. Add `vocab_size:`."),
        ({"kind": "bpe", "vocab_size": 512, "data": TRAIN_ON, "path": "x"}, "because `kind` is bpe, got a value"),
        ({"kind": "folder"}, "because `kind` is folder, got nothing. Add `path:`."),
        ({"kind": "folder", "path": "x", "vocab_size": 512}, "because `kind` is folder, got a value"),
    ],
)
def test_options_of_the_other_kind_are_refused(value, words):
    with pytest.raises(ValidationError, match=words):
        TokenizerConfig.model_validate(value)
