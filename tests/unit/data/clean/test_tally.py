from __future__ import annotations

from llmstack.data.clean.step import Change, drop, keep
from llmstack.data.clean.tally import Excerpts, Finding, Tally, by_frequency
from tests.unit.data.clean.corpus import document

SHORT = Excerpts(limit=2, max_chars=10)


def tally(*results) -> Tally:
    found = Tally()
    for number, (text, outcome) in enumerate(results):
        found.add(document(text, number), outcome, SHORT)
    return found


def test_documents_characters_and_reasons_are_counted():
    found = tally(
        ("abcd", keep("abcd")),
        ("abcd", keep("ab", Change("cut", 2, "cd"))),
        ("abcdefghijkl", drop("too long")),
    )
    assert (found.documents_in, found.documents_out, found.documents_changed) == (3, 2, 1)
    assert (found.chars_in, found.chars_out) == (20, 6)
    assert found.as_dict()["dropped"] == {
        "too long": {"documents": 1, "examples": [{"where": "file:3", "text": "abcdefghi…"}]}
    }
    assert found.as_dict()["changed"] == {
        "cut": {"documents": 1, "count": 2, "examples": [{"where": "file:2", "text": "cd"}]}
    }


def test_what_was_changed_in_a_dropped_document_counts():
    found = tally(("text", drop("empty", changes=[Change("cut", 3)])))
    assert (found.documents_out, found.documents_changed, found.changed["cut"].count) == (0, 0, 3)


def test_later_documents_are_added_and_the_first_examples_stay():
    first, second = (tally(*[("x", drop("why", f"{name}{i}")) for i in range(2)]) for name in "ab")
    first.merge(tally(("x", drop("why", "first"))), limit=3)
    first.merge(second, limit=3)
    assert (first.documents_in, first.dropped["why"].documents) == (5, 5)
    assert [example["text"] for example in first.dropped["why"].examples] == ["a0", "a1", "first"]


def test_frequent_reasons_come_first():
    findings = {"b": Finding(1), "c": Finding(5), "a": Finding(1)}
    assert [reason for reason, _ in by_frequency(findings)] == ["c", "a", "b"]


def test_an_excerpt_is_one_line_and_masked_before_it_is_cut():
    excerpts = Excerpts(limit=1, max_chars=12, mask=lambda text: text.replace("secret number", "X"))
    assert excerpts.of("my  secret\n number, it is") == "my X, it is"
    assert excerpts.of("eight aa secret number") == "eight aa X"
    assert SHORT.of("0123456789") == "0123456789"
    assert SHORT.of("0123456789a") == "012345678…"
