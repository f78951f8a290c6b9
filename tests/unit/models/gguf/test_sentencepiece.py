from __future__ import annotations

import io

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.models.gguf.reader import open_gguf
from llmstack.models.gguf.sentencepiece import merges_of
from llmstack.models.gguf.tokenizer import import_tokenizer
from tests.helpers.gguf_files import TEXTS, model_metadata, write_gguf

SAMPLES = (
    "The quick brown fox jumps over the lazy dog.",
    "  two  spaces   inside",
    "lines\n\n\tand tabs",
    "naïve 東京 🙂 ½ 1234",
    " return x + 17",
    "aaaaaaa thethethe",
)
LETTERS = "the quick brown fx"


def test_merges_by_hand():
    scores = {"a": -9.0, "b": -9.0, "ab": -1.0, "aba": -2.0, "ba": -3.0}
    vocab = {piece: index for index, piece in enumerate(scores)}
    # aba can be made of ab + a and of a + ba: both, one after the other
    assert merges_of(scores, vocab) == [("a", "b"), ("a", "ba"), ("ab", "a"), ("b", "a")]


@pytest.fixture(scope="module")
def theirs():
    """A SentencePiece BPE with byte fallback, as Llama 2's."""
    library = pytest.importorskip("sentencepiece")
    content = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter([text for text in TEXTS for _ in range(20)]),
        model_writer=content,
        model_type="bpe",
        vocab_size=330,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        character_coverage=0.99,
        user_defined_symbols=["<tool>"],
        minloglevel=2,
    )
    return library.SentencePieceProcessor(model_proto=content.getvalue())


def metadata(model) -> dict:
    """What llama.cpp's converter writes about a SentencePiece model."""

    def kind(index: int) -> int:
        is_user_defined = model.id_to_piece(index) == "<tool>"
        checks = (model.is_unknown(index), model.is_control(index), is_user_defined, model.is_unused(index))
        return next((number for number, found in zip((2, 3, 4, 5), checks, strict=True) if found), 1)

    ids = range(model.vocab_size())
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [model.id_to_piece(i) for i in ids],
        "tokenizer.ggml.scores": [float(model.get_score(i)) for i in ids],
        "tokenizer.ggml.token_type": [6 if model.is_byte(i) else kind(i) for i in ids],
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def imported(tmp_path, model, **changes):
    values = model_metadata("llama") | metadata(model) | {f"tokenizer.ggml.{k}": v for k, v in changes.items()}
    values = {key: value for key, value in values.items() if value is not None}
    return import_tokenizer(open_gguf(write_gguf(tmp_path / "m.gguf", values, {}))).backend


def test_ids_and_text_are_those_of_sentencepiece(theirs, tmp_path):
    ours = imported(tmp_path, theirs)
    rng = np.random.default_rng(0)
    random = ["".join(rng.choice(list(LETTERS), size=30)) for _ in range(200)]
    for text in (*SAMPLES, *random):
        ids = theirs.encode(text)
        assert ours.encode(text, add_special_tokens=False).ids == ids, text
        assert ours.decode(ids) == theirs.decode(ids) == text


def test_documents_begin_with_bos(theirs, tmp_path):
    ours = imported(tmp_path, theirs)
    assert ours.encode("x").ids == [1, *theirs.encode("x")]
    assert imported(tmp_path, theirs, add_bos_token=False).encode("x").ids == theirs.encode("x")


def test_the_space_in_front_can_be_off(theirs, tmp_path):
    ours = imported(tmp_path, theirs, add_space_prefix=False)
    assert ours.encode(" x", add_special_tokens=False).ids == theirs.encode("x")
    assert ours.decode(theirs.encode("x")) == " x"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": None}, "expected the metadata key tokenizer.ggml.scores, got none"),
        ({"scores": [0.0]}, "expected 330 tokenizer.ggml.scores, got 1"),
        ({"precompiled_charsmap": [1, 2]}, "precompiled_charsmap: expected none, got one: not implemented"),
        ({"remove_extra_whitespaces": True}, "remove_extra_whitespaces: expected none, got one: not implemented"),
    ],
)
def test_what_is_not_implemented_is_refused(changes, message, theirs, tmp_path):
    with pytest.raises(UserError, match=message):
        imported(tmp_path, theirs, **changes)
