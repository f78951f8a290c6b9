from __future__ import annotations

import pytest

from llmstack.config.clean import ExactDuplicatesConfig
from llmstack.data.clean.exact_duplicates import ExactDuplicates, essence
from tests.unit.data.clean.corpus import dropped, outcomes, precision_and_recall, with_copies


def step(**options) -> ExactDuplicates:
    return ExactDuplicates(ExactDuplicatesConfig(kind="exact_duplicates", **options), seed=0)


def test_precision_and_recall_are_one():
    corpus = with_copies(7, originals=150, copies=30, edits=0)
    assert precision_and_recall(dropped(outcomes(step(), corpus.texts)), corpus.planted) == (1.0, 1.0)


def test_a_single_edit_makes_another_document():
    corpus = with_copies(7, originals=50, copies=20, edits=1)
    assert dropped(outcomes(step(), corpus.texts)) == set()


@pytest.mark.parametrize(
    ("ignore", "wanted"),
    [
        ([], {5}),
        (["case"], {1, 5}),
        (["whitespace"], {2, 5}),
        (["punctuation"], {3, 5}),
        (["case", "whitespace", "punctuation"], {1, 2, 3, 4, 5}),
    ],
)
def test_only_what_is_ignored_makes_no_difference(ignore, wanted):
    texts = ["An old hat.", "an old hat.", "An  old\nhat. ", "An old hat", " AN-OLD_HAT!", "An old hat."]
    assert dropped(outcomes(step(ignore=ignore), texts)) == wanted


def test_unicode_form_never_makes_a_difference():
    assert essence("cafe\u0301", ()) == essence("caf\u00e9", ())


def test_an_empty_corpus_is_decided_about():
    assert outcomes(step(), []) == []
