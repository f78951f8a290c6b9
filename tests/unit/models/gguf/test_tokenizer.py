from __future__ import annotations

import pytest
import tokenizers
from tokenizers import pre_tokenizers

from llmstack.data.chat import CHATML
from llmstack.errors import UserError
from llmstack.models.gguf.reader import open_gguf
from llmstack.models.gguf.tokenizer import import_tokenizer
from tests.helpers.gguf_files import (
    NORMAL,
    USER_DEFINED,
    byte_level,
    model_file,
    model_metadata,
    plain_tokenizer,
    tokenizer_metadata,
    write_gguf,
)

SAMPLES = (
    "The quick brown fox jumps over 1234567 dogs.",
    "  two  spaces\n\n\ttab  and\r\nmore   ",
    "don't I'LL WE'RE it's 3.14 x17",
    "naïve 東京 🙂 ½",
    "<|im_start|>user\nhi<|im_end|>\n",
    "def f(x):\n    return x + 17\n",
    "",
)
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split_by(numbers: str):
    """The steps of the tokenizer.json files of Qwen 2 (single digits) and Llama 3 (up to three)."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(f"{WORDS}|{numbers}|{REST}"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


STEPS = {
    "gpt-2": None,
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
    "qwen2": split_by(r"\p{N}"),
    "llama-bpe": split_by(r"\p{N}{1,3}"),
}


def imported(tmp_path, backend=None, pre="gpt-2", **changes):
    metadata = model_metadata("llama") | tokenizer_metadata(backend or plain_tokenizer(), pre) | changes
    metadata = {key: value for key, value in metadata.items() if value is not None}
    return import_tokenizer(open_gguf(write_gguf(tmp_path / "m.gguf", metadata, {})))


@pytest.mark.parametrize("pre", STEPS)
def test_ids_are_those_of_the_tokenizer_it_was_made_from(pre, tmp_path):
    backend = byte_level(STEPS[pre])
    found = imported(tmp_path, backend, pre).backend
    assert found.get_vocab() == backend.get_vocab()
    for text in SAMPLES:
        ids = backend.encode(text).ids
        assert found.encode(text, add_special_tokens=False).ids == ids, text
        assert found.decode(ids, skip_special_tokens=False) == text


def test_pre_tokenizers_differ(tmp_path):
    """Else the test above would say nothing about them."""
    cuts = {
        pre: imported(tmp_path, pre=pre).backend.pre_tokenizer.pre_tokenize_str("it'S 12345 half\n\nx") for pre in STEPS
    }
    assert len({tuple(piece for piece, _ in pieces) for pieces in cuts.values()}) == len(STEPS)


def test_qwen2_composes_letters_first(tmp_path):
    assert imported(tmp_path, pre="qwen2").backend.normalizer.normalize_str("e\u0301") == "\u00e9"


def test_settings_ids_and_template(tmp_path):
    found = imported(tmp_path, **{"tokenizer.ggml.eot_token_id": 0, "tokenizer.ggml.unknown_token_id": 0})
    assert found.settings == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
    }
    assert found.ids == {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    assert found.eos_ids == (2, 0)
    assert found.template == CHATML


def test_no_template_is_none(tmp_path):
    assert imported(tmp_path, **{"tokenizer.chat_template": None}).template is None


@pytest.mark.parametrize(
    ("pre", "flags", "before", "after"),
    [
        ("gpt-2", {}, [], []),
        ("gpt-2", {"add_bos_token": True}, [1], []),
        ("gpt-2", {"add_bos_token": True, "add_eos_token": True}, [1], [2]),
        ("gpt-2", {"add_eos_token": True}, [], [2]),
        # as llama.cpp: Llama 3 begins with BOS unless the file says otherwise
        ("llama-bpe", {}, [1], []),
        ("llama-bpe", {"add_bos_token": False}, [], []),
    ],
)
def test_ends_of_a_document(pre, flags, before, after, tmp_path):
    found = imported(tmp_path, pre=pre, **{f"tokenizer.ggml.{key}": value for key, value in flags.items()}).backend
    plain = found.encode("a b", add_special_tokens=False).ids
    assert found.encode("a b").ids == [*before, *plain, *after]


def test_a_space_in_front_when_the_file_asks_for_it(tmp_path):
    found = imported(tmp_path, **{"tokenizer.ggml.add_space_prefix": True}).backend
    assert found.encode("a").ids == found.encode(" a").ids
    assert imported(tmp_path).backend.encode("a").ids != found.encode("a").ids


def test_added_tokens_are_found_in_text_but_are_no_control_tokens(tmp_path):
    metadata = tokenizer_metadata(plain_tokenizer())
    tokens = [*metadata["tokenizer.ggml.tokens"], "<tool_call>"]
    types = [*metadata["tokenizer.ggml.token_type"], USER_DEFINED]
    changes = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}
    backend = imported(tmp_path, **changes).backend
    assert backend.encode("a<tool_call>b").ids[1] == len(tokens) - 1
    added = {token.content: token.special for token in backend.get_added_tokens_decoder().values()}
    assert added["<tool_call>"] is False and added["<|im_end|>"] is True


def test_filling_tokens_are_left_out(tmp_path):
    size = plain_tokenizer().get_vocab_size()
    found = imported(tmp_path, **tokenizer_metadata(plain_tokenizer(), size=size + 8)).backend
    assert found.get_vocab_size() == size


def test_token_types_may_be_missing(tmp_path):
    found = imported(tmp_path, **{"tokenizer.ggml.token_type": None})
    assert found.backend.get_added_tokens_decoder() == {}


TOKENS = tokenizer_metadata(plain_tokenizer())["tokenizer.ggml.tokens"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pre": "tekken"}, "tokenizer.ggml.pre: expected one of gpt-2, smollm, qwen2, .*, got 'tekken'"),
        ({"pre": None}, "expected the metadata key tokenizer.ggml.pre, got none"),
        ({"model": "bert"}, "tokenizer.ggml.model: expected gpt2 or llama, got 'bert'"),
        ({"merges": None}, "expected the metadata key tokenizer.ggml.merges, got none"),
        ({"merges": ["a zz"]}, "expected tokens and merges that fit, got .*zz"),
        ({"merges": ["ab"]}, "expected tokens and merges that fit"),
        ({"eos_token_id": None}, "expected tokenizer.ggml.eos_token_id, got none"),
        ({"eos_token_id": 4000}, "tokenizer.ggml.eos_token_id: expected an id below 320, got 4000"),
        ({"add_bos_token": True, "bos_token_id": None}, "expected tokenizer.ggml.bos_token_id, got none"),
        ({"token_type": [NORMAL] * 5}, r"got 320 tokens \(0 of them repeated\) and 5 types"),
        ({"tokens": list(range(320))}, "expected a text and a type for each token"),
        ({"tokens": [*TOKENS[:-1], TOKENS[5]]}, r"got 320 tokens \(1 of them repeated\)"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message, tmp_path):
    with pytest.raises(UserError, match=message):
        imported(tmp_path, **{f"tokenizer.ggml.{key}": value for key, value in changes.items()})


def test_the_tokenizer_of_a_whole_model(tmp_path):
    model_file(tmp_path / "m.gguf")
    found = import_tokenizer(open_gguf(tmp_path / "m.gguf"))
    assert found.backend.get_vocab() == plain_tokenizer().get_vocab()
