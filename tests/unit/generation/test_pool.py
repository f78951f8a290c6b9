from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.generation.generator import Generator
from llmstack.generation.pool import GeneratorPool, bucket_of
from llmstack.generation.rules import SamplingRules
from llmstack.generation.stops import StopTexts
from llmstack.runtime import compile_count
from tests.helpers.generation_checks import left_padded
from tests.tolerances import LOGP_MATCH_ATOL

NEW_TOKENS = 6


@pytest.fixture(scope="module")
def pool(model):
    return GeneratorPool(model, eos_ids=())


def answer(pool, prompts, **options):
    options = {"max_new_tokens": NEW_TOKENS, "temperature": 0.0, "rng": np.random.default_rng(0)} | options
    return pool.answer(prompts, **options)


@pytest.mark.parametrize(("length", "bucket"), [(1, 16), (16, 16), (17, 32), (32, 32), (33, 40), (40, 40)])
def test_buckets_are_powers_of_two_within_the_context(length, bucket):
    assert bucket_of(length, 40) == bucket


def test_answers_are_the_generators(model, pool, prompts):
    generator = Generator(model, batch_rows=3, prompt_len=5, max_new_tokens=NEW_TOKENS, eos_ids=())
    tokens, lengths = left_padded(prompts, 5)
    expected = generator.generate(tokens, lengths, temperature=0.0, rng=np.random.default_rng(0))
    answers = answer(pool, prompts)
    assert [[a.tokens for a in of_prompt] for of_prompt in answers] == [
        [tuple(row)] for row in expected.tokens.tolist()
    ]
    assert not any(a.finished for of_prompt in answers for a in of_prompt)


def test_samples_and_batches(pool, prompts):
    """3 prompts with 5 samples each go into rows of 4 and the last row is filled up, in few graphs."""
    compile_count.install()
    answers = answer(pool, prompts, num_samples=5, temperature=1.0, max_rows=4)
    assert [len(of_prompt) for of_prompt in answers] == [5, 5, 5]
    assert all(len(a.tokens) == len(a.logp) == NEW_TOKENS for of_prompt in answers for a in of_prompt)
    assert len({a.tokens for a in answers[0]}) > 1
    before = compile_count.snapshot()
    greedy = answer(pool, prompts, num_samples=5, max_rows=4)
    assert compile_count.snapshot() == before
    single = answer(pool, prompts)
    assert [{a.tokens for a in of_prompt} for of_prompt in greedy] == [{of_prompt[0].tokens} for of_prompt in single]


def test_a_shape_is_compiled_once(pool):
    first = pool.generator(batch_rows=2, prompt_len=16, max_new_tokens=3)
    assert pool.generator(batch_rows=2, prompt_len=16, max_new_tokens=3) is first
    assert pool.generator(batch_rows=2, prompt_len=32, max_new_tokens=3) is not first


def test_limits_reach_the_sampler(model, prompts):
    """With one token to choose from, sampling is greedy, and its log-probability is still the policy's."""
    limited = answer(GeneratorPool(model, eos_ids=(), rules=SamplingRules(top_k=1)), prompts, temperature=1.0)
    free = answer(GeneratorPool(model, eos_ids=()), prompts)
    assert [a[0].tokens for a in limited] == [a[0].tokens for a in free]
    assert max(logp for a in limited for logp in a[0].logp) < -LOGP_MATCH_ATOL


def test_an_end_token_is_part_of_the_answer(model, pool, prompts):
    free = answer(pool, prompts[:1])[0][0]
    (ended,) = answer(GeneratorPool(model, eos_ids=free.tokens[1:2]), prompts[:1])[0]
    length = free.tokens.index(free.tokens[1]) + 1
    assert (ended.tokens, ended.finished) == (free.tokens[:length], True)


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([], {}, "prompt: expected at least one token, got none"),
        ([[1], []], {}, "prompt: expected at least one token, got none"),
        ([[1] * 59], {}, r"at most 58 tokens \(the model's context of 64 less 6 new ones\), got 59"),
        ([[1]], {"max_new_tokens": 65}, "at most 0 tokens"),
    ],
)
def test_bad_prompts_are_refused(pool, prompts, options, message):
    with pytest.raises(UserError, match=message):
        answer(pool, prompts, **options)


def letters(ids):
    """Ids as letters, so that texts can be looked for."""
    return "".join(chr(ord("A") + i) for i in ids)


def test_a_stop_text_ends_an_answer_at_the_token_that_completes_it(pool, prompts):
    free = [of_prompt[0] for of_prompt in answer(pool, prompts)]
    stop = letters(free[0].tokens[2:4])
    stops = StopTexts([stop, "not there"], letters)
    stopped = [of_prompt[0] for of_prompt in answer(pool, prompts, stops=stops)]
    for before, after in zip(free, stopped, strict=True):
        at = letters(before.tokens).find(stop)
        length = NEW_TOKENS if at < 0 else at + len(stop)
        assert after.tokens == before.tokens[:length]
        assert after.finished == (at >= 0)
        assert len(after.logp) == length
    assert stopped[0].finished


def test_noise_is_the_same_with_and_without_stop_texts(pool, prompts):
    options = {"temperature": 1.0, "num_samples": 5, "max_rows": 4}
    free = answer(pool, prompts, **options, rng=np.random.default_rng(3))
    watched = answer(pool, prompts, **options, rng=np.random.default_rng(3), stops=StopTexts(["never"], letters))
    assert [[a.tokens for a in of_prompt] for of_prompt in watched] == [
        [a.tokens for a in of_prompt] for of_prompt in free
    ]


def test_an_end_token_comes_before_a_later_stop_text(model, pool, prompts):
    free = answer(pool, prompts[:1])[0][0]
    first = free.tokens.index(free.tokens[1]) + 1
    ended = GeneratorPool(model, eos_ids=free.tokens[1:2])
    stops = StopTexts([letters(free.tokens[4:5])], letters)
    (stopped,) = answer(ended, prompts[:1], stops=stops)[0]
    assert (stopped.tokens, stopped.finished) == (free.tokens[:first], True)


def test_a_growing_conversation_is_streamed_by_few_graphs(pool):
    """Prompts of one bucket share both graphs, whatever their length."""

    def stream(length):
        return list(pool.stream([[1] * length], max_new_tokens=4, temperature=1.0, rng=np.random.default_rng(0)))

    compile_count.install()
    start = compile_count.snapshot().graphs
    assert sum(chunk.tokens.shape[1] for chunk in stream(1)) == 4
    first = compile_count.snapshot().graphs
    for length in (2, 20, 60):
        stream(length)
    assert (first - start, compile_count.snapshot().graphs - first) == (2, 0)
