"""Packed rows mean what their documents mean alone, whatever pads them: a float64 Llama reads both."""

from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.records import Message, MessagesRecord, PreferenceRecord, PromptRecord, ResponseRecord, TextRecord
from llmstack.data.rows import prompt_rows
from tests.helpers.rows import chat, everything, pairs, text
from tests.reference.decoder import Shape, logits, random_weights, scores
from tests.tolerances import F64_ATOL, F64_RTOL
from tests.unit.data.letters import letter_tokenizer

SHAPE = Shape(num_layers=2, num_heads=2, num_kv_heads=1, head_dim=4, rope_theta=10000.0, rms_norm_eps=1e-5)
TEXTS = ("abcab", "ba", "cabbage", "a", "dad", "feed a cab.")
CHATS = (
    ResponseRecord("ab", "cab."),
    ResponseRecord("a", "b"),
    MessagesRecord(
        (Message("user", "c"), Message("assistant", "a b"), Message("user", "d"), Message("assistant", "e"))
    ),
    ResponseRecord("", "fed"),
)


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return random_weights(rng, SHAPE, width=8, mlp_width=12, vocab_size=letter_tokenizer().vocab_size)


@pytest.fixture(scope="module")
def score_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return random_weights(rng, SHAPE, width=8, mlp_width=12, vocab_size=letter_tokenizer().vocab_size, head="scalar")


def log_probs(weights: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """(N, T): log-probability of each label."""
    out = logits(weights, SHAPE, arrays["tokens"], arrays["positions"], arrays["segments"])
    out = out - out.max(-1, keepdims=True)
    out = out - np.log(np.exp(out).sum(-1, keepdims=True))
    return np.take_along_axis(out, arrays["labels"][..., None], -1)[..., 0]


def alone(ids: list[int]) -> dict[str, np.ndarray]:
    """A document as the only one of a row that it fills, labels shifted by hand."""
    tokens = np.asarray([ids])
    return {
        "tokens": tokens[:, :-1],
        "labels": tokens[:, 1:],
        "positions": np.arange(len(ids) - 1)[None],
        "segments": np.ones((1, len(ids) - 1), int),
    }


def losses(weights: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Sorted losses of the trained tokens."""
    return np.sort(-log_probs(weights, arrays)[arrays["loss_mask"] == 1])


@pytest.mark.parametrize("seq_len", [13, 32])
def test_packed_text_equals_each_document_alone(weights: dict[str, np.ndarray], seq_len: int) -> None:
    tokenizer = letter_tokenizer()
    rows = everything(text([TextRecord(t) for t in TEXTS], tokenizer, seq_len))
    assert (rows["segments"].max(axis=1) > 1).any()
    single = [-log_probs(weights, alone([*tokenizer.encode(words), tokenizer.eos_id]))[0] for words in TEXTS]
    np.testing.assert_allclose(losses(weights, rows), np.sort(np.concatenate(single)), rtol=F64_RTOL, atol=F64_ATOL)


def test_packed_chat_equals_each_conversation_alone(weights: dict[str, np.ndarray]) -> None:
    tokenizer = letter_tokenizer()
    rows = everything(chat(CHATS, tokenizer, 40, 0.0))
    assert (rows["segments"].max(axis=1) > 1).any()
    single = []
    for record in CHATS:
        ids, mask = tokenizer.encode_chat(record.messages)
        single.append(-log_probs(weights, alone(ids))[0][np.asarray(mask[1:]) == 1])
    np.testing.assert_allclose(losses(weights, rows), np.sort(np.concatenate(single)), rtol=F64_RTOL, atol=F64_ATOL)


@pytest.mark.parametrize("pad", ["<|endoftext|>", "<|im_end|>"])
def test_what_fills_a_row_changes_no_loss(weights: dict[str, np.ndarray], pad: str) -> None:
    records = [TextRecord(words) for words in TEXTS]
    plain, other = (everything(text(records, letter_tokenizer(pad=p), 13)) for p in ("<|pad|>", pad))
    np.testing.assert_allclose(losses(weights, plain), losses(weights, other), rtol=F64_RTOL, atol=F64_ATOL)


@pytest.mark.parametrize("seq_len", [20, 33])
def test_answer_is_scored_at_its_end_whatever_the_row_length(
    score_weights: dict[str, np.ndarray], seq_len: int
) -> None:
    tokenizer = letter_tokenizer()
    rows = pairs([PreferenceRecord("ab", "cab.", "b")], tokenizer, seq_len)
    batch = rows.take(np.array([0]))
    found = scores(score_weights, SHAPE, batch["tokens"], batch["positions"], batch["segments"])
    found = found[[0, 1], batch["last"]]
    prompt = tokenizer.encode_prompt((Message("user", "ab"),))
    for side, answer in enumerate(("cab.", "b")):
        ids = np.asarray([[*prompt, *tokenizer.encode(answer), tokenizer.eos_ids[1]]])
        single = scores(score_weights, SHAPE, ids, np.arange(ids.size)[None], np.ones_like(ids))[0, -1]
        np.testing.assert_allclose(found[side], single, rtol=F64_RTOL, atol=F64_ATOL)


def test_left_padded_prompt_equals_the_prompt_alone(weights: dict[str, np.ndarray]) -> None:
    tokenizer = letter_tokenizer()
    rows = prompt_rows([PromptRecord("ab"), PromptRecord("a cab")], tokenizer, (16,))
    batch = rows.take(np.array([0, 1]))
    places = np.arange(16)[None] - (16 - batch["lengths"][:, None])
    padded = logits(weights, SHAPE, batch["tokens"], np.maximum(places, 0), (places >= 0).astype(int))[:, -1]
    for row, words in enumerate(("ab", "a cab")):
        ids = np.asarray([tokenizer.encode_prompt((Message("user", words),))])
        single = logits(weights, SHAPE, ids, np.arange(ids.size)[None], np.ones_like(ids))[0, -1]
        np.testing.assert_allclose(padded[row], single, rtol=F64_RTOL, atol=F64_ATOL)
