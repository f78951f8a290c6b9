from __future__ import annotations

import json

import pytest

from llmstack.config.clean import DecontaminateConfig
from llmstack.data.clean.decontaminate import Decontaminate, EvaluationGrams
from llmstack.data.clean.words import normal_words
from llmstack.errors import DataError
from tests.unit.data.clean.corpus import Writer, dropped, outcome, precision_and_recall, with_contamination


@pytest.fixture
def sets(tmp_path):
    """Writes evaluation sets; gives what ``against`` says of them."""

    def write(**texts):
        against = {}
        for name, rows in texts.items():
            path = tmp_path / f"{name}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            record = "prompt" if "prompt" in rows[0] else "text"
            against[name] = {"source": "jsonl", "record": record, "path": str(path)}
        return against

    return write


def step(against, **options) -> Decontaminate:
    return Decontaminate(DecontaminateConfig(kind="decontaminate", against=against, **options), seed=0)


def test_precision_and_recall_are_one(sets):
    writer = Writer(12)
    questions = [f"{writer.sentence()} {writer.sentence()}" for _ in range(25)]
    corpus = with_contamination(13, questions, originals=150)
    one = step(sets(quiz=[{"prompt": question, "answer": "42"} for question in questions]))
    found = [outcome(one, text) for text in corpus.texts]
    assert precision_and_recall(dropped(found), corpus.planted) == (1.0, 1.0)
    assert one.details()["against"]["quiz"]["texts"] == 50
    assert one.details()["against"]["quiz"]["too_short"] == 25


ALPHABET = [f"w{number}" for number in range(20)]


def test_just_so_many_words_in_a_row_are_needed(sets):
    one = step(sets(quiz=[{"text": " ".join(ALPHABET)}]), ngram_words=13)
    assert outcome(one, "x " + ", ".join(ALPHABET[3:16]).upper() + " y").reason == "text of quiz"
    assert outcome(one, " ".join(ALPHABET[3:15]) + " other " + " ".join(ALPHABET[15:])).text
    assert outcome(one, " ".join(ALPHABET[3:16])).example == " ".join(ALPHABET[3:16])


def test_shorter_texts_are_looked_for_whole(sets):
    against = sets(quiz=[{"text": " ".join(ALPHABET[:9])}, {"text": " ".join(ALPHABET[9:16])}])
    one = step(against, ngram_words=13, min_words=8)
    assert outcome(one, "so " + " ".join(ALPHABET[:9])).reason == "text of quiz"
    assert outcome(one, " ".join(ALPHABET[1:9])).text
    assert outcome(one, " ".join(ALPHABET[9:16])).text  # 7 words: left out
    assert one.details() == {"against": {"quiz": {"texts": 2, "too_short": 1, "ngrams": 1}}}


def test_several_matches_can_be_asked_for(sets):
    one = step(sets(quiz=[{"text": " ".join(ALPHABET)}]), ngram_words=10, min_matches=3)
    assert outcome(one, " ".join(ALPHABET[:11])).text
    assert outcome(one, " ".join(ALPHABET[:11] * 3)).text  # the same two again
    assert outcome(one, " ".join(ALPHABET[:12])).reason


def test_the_set_is_named_and_the_first_of_two_with_one_text(sets):
    shared, own = " ".join(ALPHABET[:10]), " ".join(ALPHABET[10:])
    one = step(sets(first=[{"text": shared}], second=[{"text": shared}, {"text": own}]), ngram_words=10)
    assert [outcome(one, text).reason for text in (shared, own)] == ["text of first", "text of second"]


def test_a_long_and_a_short_set_are_both_searched():
    grams = EvaluationGrams(5, 2)
    grams.add("long", [" ".join(ALPHABET[:10])])
    grams.add("short", ["one two"])
    assert grams.find(normal_words("x one two y")) == (1, "short", "one two")
    assert grams.find(normal_words(" ".join(ALPHABET[:6]) + " one two"))[:2] == (3, "long")
    assert grams.find(["x"]) == grams.find([]) == (0, "", "")


def test_a_set_of_short_texts_and_a_missing_one_are_refused(sets):
    with pytest.raises(DataError, match=r"against\.quiz: expected texts of at least 8 words, got 2 shorter ones"):
        step(sets(quiz=[{"text": "yes"}, {"text": "no"}]))
    gone = {"quiz": {"source": "jsonl", "record": "text", "path": "no/such.jsonl"}}
    with pytest.raises(DataError, match=r"against\.quiz: no/such\.jsonl: expected an existing file"):
        step(gone)
