from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from llmstack.config.clean import CleanConfig, GopherQualityConfig, GopherRepetitionConfig
from llmstack.config.document import load_document
from llmstack.errors import ConfigError
from llmstack.registry import CLEANERS

BASE = {"data": {"source": "text", "path": "x"}, "out": "out"}
NEEDED = {
    "length": {"min_words": 1},
    "language": {"keep": ["en"]},
    "decontaminate": {"against": {"quiz": {"source": "text", "path": "x"}}},
}
"""Options that a kind cannot do without."""


def decoded(*steps, **options) -> CleanConfig:
    return CleanConfig.model_validate(BASE | {"steps": list(steps)} | options)


@pytest.mark.parametrize("name", CLEANERS.names())
def test_every_step_decodes_and_comes_back_from_the_report(name):
    config = decoded({"kind": name, **NEEDED.get(name, {})})
    assert type(config.steps[0]) is CLEANERS.config(name)
    dumped = json.loads(json.dumps(config.model_dump(mode="json")))
    assert dumped["steps"][0]["kind"] == name
    assert set(dumped["steps"][0]) == set(type(config.steps[0]).model_fields)


def test_defaults_are_those_of_the_papers():
    quality, repetition = GopherQualityConfig(kind="gopher_quality"), GopherRepetitionConfig(kind="gopher_repetition")
    assert (quality.min_words, quality.max_words, quality.max_symbols_per_word) == (50, 100_000, 0.1)
    assert repetition.max_duplicate_ngram_char_ratio == {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
    assert repetition.max_top_ngram_char_ratio == {2: 0.20, 3: 0.18, 4: 0.16}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"kind": "length"}, "expected at least one bound, got none"),
        ({"kind": "length", "min_words": 5, "max_words": 4}, r"expected at least min_words \(5\), got 4"),
        ({"kind": "length", "min_chars": 5, "max_chars": 4}, r"expected at least min_chars \(5\), got 4"),
        ({"kind": "language", "keep": []}, "at least 1 item"),
        ({"kind": "language", "keep": ["English"]}, "should match pattern"),
        ({"kind": "repeated_lines", "within_document": False, "max_documents": None}, "expected a number because"),
        ({"kind": "near_duplicates", "bands": 4}, "expected bands and rows, or neither"),
        ({"kind": "near_duplicates", "bands": 20, "rows": 8}, r"expected bands x rows of at most num_perm \(128\)"),
        ({"kind": "near_duplicates", "threshold": 0.0}, "greater than 0"),
        ({"kind": "decontaminate", "against": {}}, "at least 1 item"),
        (
            {"kind": "decontaminate", "ngram_words": 5, **NEEDED["decontaminate"]},
            r"expected at most ngram_words \(5\), got 8",
        ),
        ({"kind": "gopher_repetition", "max_top_ngram_char_ratio": {0: 0.1}}, "expected n-grams of 1 or more words"),
        (
            {"kind": "personal_data", "email": None, "phone": None, "ip": None, "card": None, "iban": None},
            "expected at least one kind to mask",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(step, message):
    with pytest.raises(ValidationError, match=message):
        decoded(step)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": []}, "at least 1 item"),
        ({"slice": {"index": 2, "of": 2}}, r"expected less than `of` \(2\), got 2"),
        ({"shards": 0}, "greater than 0"),
        ({"workers": 0}, "greater than 0"),
        ({"out": ""}, "at least 1 character"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        decoded({"kind": "normalise"}, **options)


def test_problems_are_told_with_path_and_line(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        "data: {source: text, path: nowhere.txt}\n"
        "out: out\n"
        "steps:\n"
        "  - {kind: normalize}\n"
        "  - {kind: length, min_wrds: 3}\n"
        "  - kind: decontaminate\n"
        "    against:\n"
        "      quiz: {source: jsonl, record: text, path: gone.jsonl}\n"
    )
    with pytest.raises(ConfigError) as error:
        load_document(str(path), [], CleanConfig)
    text = str(error.value)
    for words in (
        "steps.0.kind: expected a cleaning step (c4, ",
        "got 'normalize'. Did you mean `normalise`?",
        "steps.1.min_wrds: expected a known key",
        "Did you mean `min_words`?",
        "steps.2.against.quiz.path: expected an existing file",
        "data.path: expected an existing file",
    ):
        assert words in text
    assert "job.yaml:4" in text and "job.yaml:8" in text
