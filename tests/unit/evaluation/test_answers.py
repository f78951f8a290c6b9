from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.evaluation.answers import AnswerOptions, Writer, split_stops
from llmstack.generation.pool import GeneratorPool
from llmstack.runtime import compile_count
from tests.helpers.stages import tokenizer
from tests.tolerances import F64_ATOL

GREEDY = AnswerOptions(max_new_tokens=6, temperature=0.0, batch_rows=4)
TEXTS = ["red", "green blue", "black " * 6, "white", "blue", "red green", "black"]


@pytest.fixture(scope="module")
def writer(language):
    return Writer(language, GREEDY)


def ids_of(texts):
    return [tokenizer().encode(text) for text in texts]


def write(writer, texts):
    return writer.write(ids_of(texts), wheres=texts)


def test_answers_come_in_the_order_of_the_prompts(writer, language):
    """Prompts of two lengths go into different graphs; each answer is that of its prompt alone."""
    pool = GeneratorPool(language.model, eos_ids=language.tokenizer.eos_ids)
    answers = write(writer, TEXTS)
    for text, (written,) in zip(TEXTS, answers, strict=True):
        ((alone,),) = pool.answer(ids_of([text]), max_new_tokens=6, temperature=0.0, rng=np.random.default_rng(0))
        assert written.text == tokenizer().decode(alone.tokens)
        assert (written.num_tokens, written.finished) == (len(alone.tokens), alone.finished)
        np.testing.assert_allclose(written.mean_logp, np.mean(alone.logp), rtol=0, atol=F64_ATOL)


def test_a_second_file_compiles_nothing(writer):
    write(writer, TEXTS)
    compile_count.install()
    before = compile_count.snapshot()
    write(writer, TEXTS[::-1])
    assert compile_count.snapshot() == before


def test_several_samples_of_each(language):
    options = AnswerOptions(max_new_tokens=6, temperature=1.0, num_samples=3, batch_rows=4, seed=5)
    first, second = (write(Writer(language, options), TEXTS[:2]) for _ in range(2))
    assert [len(found) for found in first] == [3, 3]
    assert first == second
    assert first != write(Writer(language, AnswerOptions(**vars(options) | {"seed": 6})), TEXTS[:2])


def test_an_answer_stops_before_a_text(writer, language):
    free = write(writer, TEXTS[:1])[0][0].text
    stop = free[2:4]
    (written,) = write(Writer(language, AnswerOptions(**vars(GREEDY) | {"stops": (stop,)})), TEXTS[:1])[0]
    assert (written.text, written.finished) == (free[: free.index(stop)], True)


def test_a_control_token_stops_in_the_graph():
    token, ident = next(iter(tokenizer().control_tokens.items()))
    eos_ids, stops = split_stops(["x", token], tokenizer())
    assert (eos_ids, stops.texts) == ((ident,), ("x",))
    with pytest.raises(UserError, match=r"stop: expected a text, or the control token .* alone, got"):
        split_stops([f"{token}x"], tokenizer())


def test_prompts_that_do_not_fit_are_named(writer):
    with pytest.raises(UserError, match="b: expected some text, got none"):
        writer.write([[1], []], wheres=["a", "b"])
    with pytest.raises(UserError, match=r"b: expected at most 58 tokens \(the model's context of 64 less 6 new ones\)"):
        writer.write([[1], [1] * 59], wheres=["a", "b"])
