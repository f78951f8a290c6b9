from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.generation.generator import Generator
from llmstack.generation.pool import GeneratorPool, bucket_of
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
    limited = answer(GeneratorPool(model, eos_ids=(), top_k=1), prompts, temperature=1.0)
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


def test_bad_limits_are_refused_before_anything_is_built(model):
    with pytest.raises(UserError, match="top_p"):
        GeneratorPool(model, eos_ids=(), top_p=1.5)
