from __future__ import annotations

import math

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.generation.generator import Generator, check_ends
from tests.helpers.generation_checks import left_padded, same_answers
from tests.tolerances import EXACT
from tests.unit.generation.conftest import NEW_TOKENS, PROMPT_LEN, ROWS

SIZES = {"batch_rows": ROWS, "prompt_len": PROMPT_LEN, "max_new_tokens": NEW_TOKENS, "eos_ids": ()}


@pytest.fixture(scope="module")
def generate(generator, prompts):
    def call(*, temperature=1.0, seed=0, pad=0):
        tokens, lengths = left_padded(prompts, PROMPT_LEN, pad=pad)
        return generator.generate(tokens, lengths, temperature=temperature, rng=np.random.default_rng(seed))

    return call


def test_shapes_without_an_end_token(generate):
    answers = generate()
    assert answers.tokens.shape == answers.logp.shape == (ROWS, NEW_TOKENS)
    assert (answers.tokens.dtype, answers.logp.dtype, answers.lengths.dtype) == (np.int32, np.float32, np.int32)
    assert answers.lengths.tolist() == [NEW_TOKENS] * ROWS
    assert not answers.finished.any()
    assert (answers.logp < 0).all()


def test_an_end_token_ends_the_answer(model, generate, prompts):
    free = generate(temperature=0.0)
    eos = (int(free.tokens[0, 2]), int(free.tokens[1, 0]))
    generator = Generator(model, **SIZES | {"eos_ids": eos})
    tokens, lengths = left_padded(prompts, PROMPT_LEN)
    answers = generator.generate(tokens, lengths, temperature=0.0, rng=np.random.default_rng(0))
    for row in range(ROWS):
        ends = np.flatnonzero(np.isin(free.tokens[row], eos))
        length = ends[0] + 1 if ends.size else NEW_TOKENS
        assert (answers.lengths[row], answers.finished[row]) == (length, ends.size > 0)
        assert answers.tokens[row].tolist() == [*free.tokens[row, :length], *[0] * (NEW_TOKENS - length)]
        np.testing.assert_allclose(answers.logp[row, length:], 0.0, rtol=0, atol=EXACT)
    assert answers.finished[:2].all()


def test_the_noise_alone_decides(generate):
    same_answers(generate(seed=3), generate(seed=3))
    assert not np.array_equal(generate(seed=3).tokens, generate(seed=4).tokens)


def test_what_pads_hold_does_not_matter(generate):
    same_answers(generate(pad=0), generate(pad=17))


def test_greedy_answers_take_no_noise_and_are_certain(generator, prompts):
    tokens, lengths = left_padded(prompts, PROMPT_LEN)
    rng = np.random.default_rng(0)
    first = generator.generate(tokens, lengths, temperature=0.0, rng=rng)
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state
    same_answers(first, generator.generate(tokens, lengths, temperature=0.0, rng=rng))
    np.testing.assert_allclose(first.logp, 0.0, rtol=0, atol=EXACT)


def test_a_draw_takes_the_same_noise_whenever_answers_end(generator, prompts):
    tokens, lengths = left_padded(prompts, PROMPT_LEN)
    rng, counted = np.random.default_rng(0), np.random.default_rng(0)
    generator.generate(tokens, lengths, temperature=0.5, rng=rng)
    counted.integers(0, 2**23, ROWS * NEW_TOKENS)
    assert rng.bit_generator.state == counted.bit_generator.state


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_rows": 0}, "batch_rows: expected at least 1, got 0"),
        ({"prompt_len": 0}, "prompt_len: expected at least 1, got 0"),
        ({"max_new_tokens": 0}, "max_new_tokens: expected at least 1, got 0"),
        ({"max_new_tokens": 60}, r"context of 64 tokens, got 5 \+ 60"),
        ({"eos_ids": (2, 37)}, r"below the vocabulary's size of 37, got \[37\]"),
    ],
)
def test_impossible_sizes_are_refused(model, changes, message):
    with pytest.raises(UserError, match=message):
        Generator(model, **SIZES | changes)


@pytest.mark.parametrize(
    ("shape", "lengths", "message"),
    [
        ((ROWS, PROMPT_LEN + 1), [1] * ROWS, r"expected tokens \(3, 5\) and lengths \(3,\), got \(3, 6\)"),
        ((ROWS, PROMPT_LEN), [1] * (ROWS + 1), r"got \(3, 5\) and \(4,\)"),
        ((ROWS, PROMPT_LEN), [1, 0, 1], "expected lengths from 1 to 5, got 0 to 1"),
        ((ROWS, PROMPT_LEN), [1, 6, 1], "got 1 to 6"),
    ],
)
def test_misshaped_prompts_are_refused(generator, shape, lengths, message):
    with pytest.raises(UserError, match=message):
        generator.generate(
            np.zeros(shape, np.int32), np.array(lengths, np.int32), temperature=1.0, rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize("temperature", [-0.1, math.inf, math.nan])
def test_bad_temperatures_are_refused(generate, temperature):
    with pytest.raises(UserError, match="temperature: expected 0 or a positive number, got"):
        generate(temperature=temperature)


def test_end_tokens_within_the_vocabulary_pass():
    check_ends((0, 36), 37)
    check_ends((), 1)
