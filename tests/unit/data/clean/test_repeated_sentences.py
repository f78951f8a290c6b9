from __future__ import annotations

from llmstack.config.clean import RepeatedSentencesConfig
from llmstack.data.clean.repeated_sentences import RepeatedSentences, span_hashes
from tests.unit.data.clean.corpus import Writer, outcomes, precision_and_recall


def found_in(texts, sentences=3):
    config = RepeatedSentencesConfig(kind="repeated_sentences", sentences=sentences)
    return outcomes(RepeatedSentences(config, seed=0), texts)


def test_all_but_the_first_of_a_span_goes():
    texts = [
        "One a. Two b. Three c. Four d.",
        "New e.\n\nOne  A. two b. Three c.\n\nNew f.",
        "Two b. Three c. Other g.",
    ]
    found = found_in(texts)
    assert [item.text for item in found] == [texts[0], "New e.\n\nNew f.", texts[2]]
    assert found[1].changes[0].count == 3


def test_a_span_repeated_in_one_document_goes_too():
    assert found_in(["A a. B b. C c. A a. B b."], sentences=2)[0].text == "A a. B b. C c."


def test_a_document_of_known_spans_has_nothing_left():
    assert [item.text for item in found_in(["A a. B b. C c.", "A a. B b. C c."])] == ["A a. B b. C c.", ""]


def test_short_documents_have_no_span():
    places, hashes = span_hashes("One. Two.", 3)
    assert (len(places), hashes.shape) == (2, (0,))
    assert [item.text for item in found_in(["One. Two.", "One. Two."])] == ["One. Two."] * 2


def test_precision_and_recall_are_one_for_planted_spans():
    writer = Writer(6)
    texts = [" ".join(writer.sentences(10)) for _ in range(80)]
    copied = ". ".join(texts[0].split(". ")[2:5]) + "."
    planted = set(range(20, 40))
    for number in planted:
        texts[number] = f"{copied} {texts[number]}" if number % 2 else f"{texts[number]} {copied}"
    found = found_in(texts)
    touched = {number for number, item in enumerate(found) if item.text != texts[number]}
    assert precision_and_recall(touched, planted) == (1.0, 1.0)
    assert not any(copied in found[number].text for number in planted)
