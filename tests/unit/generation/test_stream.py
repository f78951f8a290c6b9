from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.generation.generator import Generator
from llmstack.generation.rules import SamplingRules
from llmstack.generation.stream import Streamer
from llmstack.nn import kernels
from llmstack.runtime import compile_count
from tests.helpers.generation_checks import left_padded
from tests.tolerances import LOGP_MATCH_ATOL

NEW_TOKENS = 9


@pytest.fixture(scope="module")
def streamer(model):
    return Streamer(model, batch_rows=3, context_len=24, eos_ids=(), chunk_tokens=4)


def begin(streamer, prompts, *, prompt_len=5, temperature=1.0, seed=0, max_new_tokens=NEW_TOKENS):
    return streamer.stream(
        prompts,
        prompt_len=prompt_len,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        rng=np.random.default_rng(seed),
    )


def joined(chunks):
    return np.concatenate([c.tokens for c in chunks], axis=1), np.concatenate([c.logp for c in chunks], axis=1)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("temperature", "penalty"), [(0.0, 1.0), (1.0, 1.0), (1.0, 1.5)])
def test_the_stream_is_what_one_graph_draws(model, prompts, temperature, penalty, compiled, monkeypatch):
    """With compiled kernels, where the machine can compile some, and with plain operators."""
    if not compiled:
        monkeypatch.setattr(kernels, "library", lambda: None)
    rules = SamplingRules(repetition_penalty=penalty)
    whole = Generator(model, batch_rows=3, prompt_len=5, max_new_tokens=NEW_TOKENS, eos_ids=(), rules=rules)
    expected = whole.generate(*left_padded(prompts, 5), temperature=temperature, rng=np.random.default_rng(0))
    streamer = Streamer(model, batch_rows=3, context_len=24, eos_ids=(), rules=rules, chunk_tokens=4)
    for prompt_len in (5, 7):  # other padding, the same cache
        chunks = list(begin(streamer, prompts, prompt_len=prompt_len, temperature=temperature))
        assert [chunk.tokens.shape for chunk in chunks] == [(3, 1), (3, 4), (3, 4)]
        tokens, logp = joined(chunks)
        np.testing.assert_array_equal(tokens, expected.tokens)
        np.testing.assert_allclose(logp, expected.logp, rtol=0, atol=LOGP_MATCH_ATOL)


def test_a_chunk_stays_what_it_was(streamer, prompts):
    """The graph returns its own Parameters, which the next chunk overwrites."""
    streaming = iter(begin(streamer, prompts))
    next(streaming)
    second = next(streaming)
    before = second.tokens.copy()
    next(streaming)
    np.testing.assert_array_equal(second.tokens, before)


def test_it_ends_with_the_last_row(model, streamer, prompts):
    free, _ = joined(begin(streamer, prompts, temperature=0.0))
    eos = tuple(int(i) for i in free[:, 2])
    ended = Streamer(model, batch_rows=3, context_len=24, eos_ids=eos, chunk_tokens=4)
    streaming = begin(ended, prompts, temperature=0.0)
    tokens, _ = joined(streaming)
    ends = np.isin(free, eos).argmax(axis=1)
    assert streaming.ended.all()
    assert tokens.shape[1] == ends.max() + 1
    np.testing.assert_array_equal(tokens, free[:, : ends.max() + 1])


def test_the_caller_may_end_rows(streamer, prompts):
    streaming = begin(streamer, prompts)
    sizes = []
    for chunk in streaming:
        sizes.append(chunk.tokens.shape[1])
        for row in range(len(sizes) + 1):
            streaming.end(row)
    assert sizes == [1, 4]


def test_one_graph_a_prompt_length_and_one_to_go_on(model, prompts):
    streamer = Streamer(model, batch_rows=3, context_len=24, eos_ids=(), chunk_tokens=2)
    compile_count.install()
    start = compile_count.snapshot().graphs
    for prompt_len, seed, count in ((5, 0, 9), (5, 1, 7), (6, 2, 8), (5, 3, 2)):
        list(begin(streamer, prompts, prompt_len=prompt_len, seed=seed, max_new_tokens=count))
    assert compile_count.snapshot().graphs - start == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_len": 4}, r"prompts: expected 3 of 1 to 4 tokens, got \[5, 2, 1\] tokens"),
        ({"max_new_tokens": 20}, r"max_new_tokens: expected 1 to 19 \(24 slots less 5 of the prompt\), got 20"),
        ({"max_new_tokens": 0}, "max_new_tokens: expected 1 to 19"),
        ({"temperature": -1.0}, "temperature: expected 0 or a positive number, got -1.0"),
    ],
)
def test_what_does_not_fit_is_refused(streamer, prompts, options, message):
    with pytest.raises(UserError, match=message):
        begin(streamer, prompts, **options)


def test_end_tokens_of_another_model_are_refused(model):
    with pytest.raises(UserError, match=r"eos_ids: expected ids below the vocabulary's size of 37, got \[40\]"):
        Streamer(model, batch_rows=1, context_len=8, eos_ids=(40,))
