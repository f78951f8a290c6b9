from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstack.annotation.votes import (
    Rules,
    Vote,
    decide,
    equal,
    equal_text,
    extractor_of,
    own_label,
    rules_of,
    word_f1,
)
from llmstack.config.annotation import UncertaintyConfig


def rules(min_agreement=None, parse_failures=True, flips=True, same=equal, has_ties=True):
    return Rules(min_agreement, parse_failures, flips, same, has_ties)


def votes(**labels):
    """One vote a letter; a dash is an answer that could not be read, a tilde a flip."""
    special = {"-": Vote(None, "odd"), "~": Vote(None, "the answer shown first", flipped=True)}
    return {name: [special.get(letter, Vote(letter)) for letter in some] for name, some in labels.items()}


def reasons(found):
    return [kind for kind, _ in found.why]


def test_the_majority_wins_and_its_share_is_the_agreement():
    found = decide(votes(judge="aab"), rules())
    assert (found.label, found.agreement, found.annotators, found.why) == ("a", 2 / 3, ("judge",), ())
    assert found.candidates == (
        {"label": "a", "share": 0.6667, "annotators": ["judge"]},
        {"label": "b", "share": 0.3333, "annotators": ["judge"]},
    )


def test_an_annotator_has_one_vote_however_many_samples():
    found = decide(votes(many="aaaaa", one="b", other="b"), rules())
    assert (found.label, found.agreement, found.annotators) == ("b", 2 / 3, ("one", "other"))


def test_samples_that_gave_no_label_have_no_share():
    found = decide(votes(first="a-", second="b--", third="--"), rules(parse_failures=False))
    assert reasons(found) == ["tie"]
    assert decide(votes(first="a-"), rules(parse_failures=False)).agreement == 1.0


@pytest.mark.parametrize(
    ("given", "changes", "why"),
    [
        ({"j": "aab"}, {"min_agreement": 0.66}, []),
        ({"j": "aab"}, {"min_agreement": 0.67}, ["disagreement"]),
        ({"j": "aaaaaaaaab"}, {"min_agreement": 0.9}, []),  # 9/10 is not below 0.9
        ({"j": "ab"}, {}, ["tie"]),
        ({"j": "ab"}, {"min_agreement": 0.9}, ["tie"]),
        ({"j": "aabbc"}, {}, ["tie"]),
        ({"j": "aa-"}, {}, ["unreadable"]),
        ({"j": "aa-"}, {"parse_failures": False}, []),
        ({"j": "aa~"}, {}, ["flip"]),
        ({"j": "aa~"}, {"flips": False}, []),
        ({"j": "aa~"}, {"parse_failures": False}, ["flip"]),
        ({"j": "~~", "k": "a"}, {"flips": False}, []),
        ({"j": "~"}, {"flips": False}, ["no_label"]),
        ({"j": "--"}, {}, ["unreadable"]),
        ({"j": "-~"}, {"parse_failures": False}, ["flip"]),
        ({"j": "--"}, {"parse_failures": False}, ["no_label"]),
        ({"j": ""}, {}, ["no_label"]),
    ],
)
def test_reasons_to_ask_people(given, changes, why):
    found = decide(votes(**given), rules(**changes))
    assert reasons(found) == why
    assert (found.label is None) == (not set("abc") & set("".join(given.values())))


def test_of_texts_that_are_the_same_the_first_is_taken():
    found = decide({"j": [Vote("It  is Four"), Vote("it is four"), Vote("five")]}, rules(same=equal_text))
    assert (found.label, found.agreement) == ("It  is Four", 2 / 3)


def test_of_overlapping_answers_the_one_nearest_to_all_is_taken():
    answers = [Vote("red"), Vote("red green"), Vote("red green blue"), Vote("green")]
    found = decide({"j": answers}, rules(same=word_f1, has_ties=False))
    # by hand, of "red green": F1 is 2/3 with "red", 1 with itself, 4/5 with the third, 2/3 with "green"
    assert found.label == "red green"
    assert found.agreement == float(Fraction(2, 3) + 1 + Fraction(4, 5) + Fraction(2, 3)) / 4
    assert found.why == ()


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
def test_shares_add_up_and_the_best_is_the_first_candidate(first, second):
    found = decide({"x": list(map(Vote, first)), "y": list(map(Vote, second))}, rules())
    assert abs(sum(one["share"] for one in found.candidates) - 1) < 1e-3
    assert found.candidates[0]["label"] == found.label
    assert (reasons(found) == ["tie"]) == (
        len(found.candidates) > 1 and found.candidates[0]["share"] == found.candidates[1]["share"]
    )


def test_words():
    assert word_f1("The cat sat.", "the CAT slept") == Fraction(2, 3)
    assert word_f1("a a b", "a b b") == Fraction(2, 3)
    assert word_f1("x", "y") == 0
    assert word_f1("...", "") == 1
    assert word_f1("'cat'", "cat") == 1


def test_the_rules_of_a_configuration():
    assert rules_of(UncertaintyConfig(), "class") == rules()
    assert rules_of(UncertaintyConfig(flips=False), "preference").flips is False
    assert rules_of(UncertaintyConfig(), "response").same("A  b", "a B") == 1
    by_answer = rules_of(UncertaintyConfig(same="final_answer"), "response")
    assert (by_answer.same("it is 4.0", "4"), by_answer.same("4", "5"), by_answer.has_ties) == (1, 0, True)
    pattern = UncertaintyConfig(same="final_answer", answer_pattern="<(.*?)>")
    assert rules_of(pattern, "response").same("1 <x>", "2 <x>") == 1
    by_words = rules_of(UncertaintyConfig(same="words"), "response")
    assert (by_words.same("a b", "a"), by_words.has_ties) == (Fraction(2, 3), False)
    assert extractor_of(UncertaintyConfig(same="words")) is None


def test_the_label_of_one_annotator():
    assert own_label(votes(j="aab")["j"], rules(min_agreement=0.9)) == "a"
    assert own_label(votes(j="a-~")["j"], rules()) == "a"
    assert own_label(votes(j="ab")["j"], rules()) is None
    assert own_label(votes(j="-")["j"], rules()) is None
