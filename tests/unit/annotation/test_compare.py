from __future__ import annotations

import pytest

from llmstack.annotation.compare import agreements, own_labels, perplexities
from llmstack.annotation.items import Item
from llmstack.annotation.merge import record_of
from llmstack.annotation.votes import Decision, Vote, rules_of
from llmstack.config.annotation import UncertaintyConfig
from llmstack.data.records import ResponseRecord
from llmstack.evaluation.loading import load_language_model
from llmstack.evaluation.perplexity import answer_rows, mean_of_rows
from tests.helpers.stages import causal_folder, tokenizer

PLAIN = UncertaintyConfig()


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    path = causal_folder(tmp_path_factory.mktemp("models") / "causal")
    tokenizer().save(path)
    return load_language_model(path)


def test_every_two_annotators_on_what_both_have_labelled():
    labels = {"a": {"1": "x", "2": "y"}, "b": {"2": "y", "1": "x", "3": "x"}, "c": {"3": "y"}, "d": {}}
    rows = agreements(labels, "class", PLAIN)
    assert [(row["first"], row["second"], row["items"], row["raw"], row["kappa"]) for row in rows] == [
        ("a", "b", 2, 1.0, 1.0),
        ("b", "c", 1, 0.0, 0.0),
    ]
    assert rows[1]["confusion"] == {"x": {"y": 1}}


@pytest.mark.parametrize(
    ("config", "raw", "kappa"),
    [
        (UncertaintyConfig(), 0.5, pytest.approx(1 / 3)),
        (UncertaintyConfig(same="final_answer"), 1.0, 1.0),
        (UncertaintyConfig(same="words"), pytest.approx((1 + 2 / 3) / 2), None),
    ],
)
def test_responses_are_compared_as_the_rules_say(config, raw, kappa):
    labels = {"a": {"1": "It is  4", "2": "surely 5"}, "b": {"1": "it is 4", "2": "5"}}
    (row,) = agreements(labels, "response", config)
    assert (row["raw"], row["kappa"], row["confusion"]) == (raw, kappa, {})


def test_labels_of_one_annotator():
    votes = {"1": [Vote("x"), Vote("x"), Vote("y")], "2": [Vote("x"), Vote("y")], "3": [Vote(None, "odd")]}
    assert own_labels(votes, rules_of(PLAIN, "class")) == {"1": "x"}


def test_labels_of_each_source_and_of_two_for_the_same_items(language):
    items = [Item(text) for text in ("red", "green", "blue")]
    sources = {"automatic": "black", "human": "white white", "semi_automatic": "red"}
    records = [
        {**record_of(item, "response", label), "label_source": source, "id": item.id, "where": "f:1"}
        for item, (source, label) in zip(items, sources.items(), strict=True)
    ]
    decisions = {item.id: Decision("black", 1.0, ("judge",), (), ()) for item in items[:2]}
    decisions[items[2].id] = Decision(None, 0.0, (), (), ())
    found = perplexities(language, records, decisions, {item.id: item for item in items}, "response")
    assert [(row["source"], row["labels"]) for row in found["sources"]] == [
        ("human", 1),
        ("automatic", 1),
        ("semi_automatic", 1),
    ]
    assert [(row["items_of"], row["labels_by"]) for row in found["same_items"]] == [
        ("human", "human"),
        ("human", "automatic"),
    ]
    alone = [mean_of_rows(answer_rows(language, [ResponseRecord("green", text)])) for text in ("white white", "black")]
    for row, expected in zip(found["same_items"], alone, strict=True):
        assert row["tokens"] == expected["tokens"]
        assert row["perplexity"] == pytest.approx(expected["perplexity"])


def test_preferences_are_compared_by_their_better_answers(language):
    item = Item("red", ("green", "blue"))
    record = {**record_of(item, "preference", "b"), "label_source": "human", "id": item.id, "where": "f:1"}
    decisions = {item.id: Decision("a", 1.0, ("judge",), (), ())}
    found = perplexities(language, [record], decisions, {item.id: item}, "preference")
    texts = [mean_of_rows(answer_rows(language, [ResponseRecord("red", text)])) for text in ("blue", "green")]
    assert [row["perplexity"] for row in found["same_items"]] == [pytest.approx(t["perplexity"]) for t in texts]
