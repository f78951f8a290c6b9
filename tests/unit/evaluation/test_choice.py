from __future__ import annotations

import numpy as np
import pytest

from llmstack.data.records import Message
from llmstack.errors import DataError
from llmstack.evaluation.choice import ChoiceRecord, choice_accuracy, continuation, read_choices
from tests.helpers.stages import tokenizer, write_jsonl
from tests.tolerances import LOGP_MATCH_ATOL
from tests.unit.evaluation.test_likelihood import Target, oracle

CHOICES = ("red", "green blue", "black black white")


def records(answers):
    return [ChoiceRecord("blue", CHOICES, answer, where=f"a:{answer}") for answer in answers]


def test_the_likeliest_choice_by_three_measures(language):
    encode = tokenizer().encode
    before = encode("blue")
    after = [encode(f"blue {choice}")[len(before) :] for choice in CHOICES]
    logp = [oracle(language.model, Target([*before, *ids], len(before)))[0].sum() for ids in after]
    by = {
        "accuracy": np.argmax(logp),
        "accuracy_per_token": np.argmax([p / len(ids) for p, ids in zip(logp, after, strict=True)]),
        "accuracy_per_byte": np.argmax([p / len(choice) for p, choice in zip(logp, CHOICES, strict=True)]),
    }
    report = choice_accuracy(language, records([0, 1, 2]))
    np.testing.assert_allclose(report.rows[0]["logp"], logp, rtol=0, atol=LOGP_MATCH_ATOL)
    assert report.numbers["questions"] == 3
    for answer in range(3):
        numbers = choice_accuracy(language, records([answer])).numbers
        assert {name: numbers[name] for name in by} == {name: float(best == answer) for name, best in by.items()}
    assert by["accuracy"] == 0  # shortest


def test_as_turns_of_a_conversation(language):
    report = choice_accuracy(language, records([0]), chat=True)
    before = tokenizer().encode_prompt([Message("user", "blue")])
    ids = tokenizer().encode("red")
    expected = oracle(language.model, Target([*before, *ids], len(before)))[0].sum()
    np.testing.assert_allclose(report.rows[0]["logp"][0], expected, rtol=0, atol=LOGP_MATCH_ATOL)


def test_a_text_begins_with_the_space_before_it():
    encode = tokenizer().encode
    ids, start = encode("red green"), len(encode("red"))
    for context, text in (("red", " green"), ("red ", "green")):
        assert continuation(tokenizer(), context, text) == Target(ids, start)


def test_a_token_that_reaches_across_belongs_to_the_text():
    """Of ``gre`` and ``en`` the whole word is one token."""
    encode = tokenizer().encode
    assert len(encode("a green")) < len(encode("a gre")) + len(encode("en"))
    target = continuation(tokenizer(), "a gre", "en")
    assert target.ids == encode("a green")
    assert target.ids[: target.start] == encode("a gre")[: target.start]
    assert target.start < len(encode("a gre"))


def test_without_a_context_the_text_starts_a_document():
    assert continuation(tokenizer(), "", "red") == Target([tokenizer().eos_id, *tokenizer().encode("red")], 1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"choices": ["a"]}, r"a.jsonl:1: expected at least two choices with text in 'choices', got \['a'\]"),
        ({"choices": ["a", ""]}, "expected at least two choices with text"),
        ({"choices": "ab"}, "expected a non-empty list in 'choices'"),
        ({"answer": 2}, "a.jsonl:1: expected the index of the right choice, 0 to 1, in 'answer', got 2"),
        ({"answer": "a"}, "expected the index of the right choice, 0 to 1, in 'answer', got 'a'"),
        ({"answer": True}, "in 'answer', got True"),
        ({"prompt": None}, "expected a string in 'prompt'"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    good = {"prompt": "p", "choices": ["a", "b"], "answer": 1}
    path = write_jsonl(tmp_path / "a.jsonl", [good | row])
    with pytest.raises(DataError, match=message):
        read_choices(path, {})
    (record,) = read_choices(write_jsonl(tmp_path / "a.jsonl", [good]), {})
    assert (record.prompt, record.choices, record.answer) == ("p", ("a", "b"), 1)


def test_a_choice_beyond_the_context_is_named(language):
    with pytest.raises(DataError, match="a:9: expected prompt and choice within the model's context of 64 tokens"):
        choice_accuracy(language, [ChoiceRecord("white " * 80, CHOICES, 0, where="a:9")])
