from __future__ import annotations

import math

import numpy as np
import pytest

from llmstack.data.records import Message, ResponseRecord, TextRecord
from llmstack.errors import DataError, UserError
from llmstack.evaluation.loading import Loaded
from llmstack.evaluation.perplexity import (
    PerplexityOptions,
    answer_rows,
    mean_of_rows,
    perplexity,
    read_texts,
    windows,
)
from tests.helpers.stages import tokenizer, write_jsonl
from tests.tolerances import F32_RTOL, F64_RTOL
from tests.unit.evaluation.test_likelihood import Target, oracle

TEXTS = [TextRecord("red green blue " * 9, where="a:1"), TextRecord("black", where="a:2"), TextRecord("q", where="a:3")]


def test_windows_by_hand():
    assert windows(5, 8, 4) == [(0, 1, 5)]
    assert windows(10, 6, 2) == [(0, 1, 6), (2, 6, 8), (4, 8, 10)]
    assert windows(7, 4, 3) == [(0, 1, 4), (3, 4, 7)]


@pytest.mark.parametrize(("num_tokens", "window", "stride"), [(2, 2, 1), (31, 7, 3), (100, 16, 15), (17, 16, 1)])
def test_each_token_but_the_first_is_scored_once_with_enough_before_it(num_tokens, window, stride):
    cut = windows(num_tokens, window, stride)
    scored = [place for _, first, end in cut for place in range(first, end)]
    assert scored == list(range(1, num_tokens))
    assert all(end - begin <= window for begin, _, end in cut)
    assert all(first - begin >= window - stride for begin, first, _ in cut[1:])


@pytest.mark.parametrize("options", [PerplexityOptions(), PerplexityOptions(16, 4), PerplexityOptions(count_end=True)])
def test_it_is_exp_of_the_mean_over_all_tokens(language, options):
    end = [tokenizer().eos_id] if options.count_end else []
    sums, counts = [], []
    for record in TEXTS:
        ids = [*tokenizer().encode(record.text), *end]
        sums.append(0.0)
        counts.append(len(ids) - 1)
        for begin, first, stop in windows(len(ids), options.window or 64, options.stride or 32) if len(ids) > 1 else ():
            sums[-1] -= oracle(language.model, Target(ids[begin:stop], first - begin))[0].sum()
    report = perplexity(language, TEXTS, options)
    assert report.numbers["tokens"] == sum(counts)
    np.testing.assert_allclose(report.numbers["nll"], sum(sums) / sum(counts), rtol=F32_RTOL)
    np.testing.assert_allclose(report.numbers["perplexity"], math.exp(report.numbers["nll"]), rtol=F64_RTOL)
    assert [(row["where"], row["tokens"]) for row in report.rows] == list(
        zip(("a:1", "a:2", "a:3"), counts, strict=True)
    )
    if not options.count_end:
        assert (counts[2], report.rows[2]["nll"]) == (0, None)


def test_documents(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n\nthree\n")
    path = str(tmp_path / "a.txt")
    assert [t.text for t in read_texts(path, {}, by_blank_line=False)] == ["one\ntwo\n\nthree\n"]
    assert [(t.text, t.where) for t in read_texts(path, {}, by_blank_line=True)] == [
        ("one\ntwo", f"{path}:1"),
        ("three", f"{path}:4"),
    ]
    rows = write_jsonl(tmp_path / "a.jsonl", [{"body": "x"}, {"body": " "}])
    assert [t.text for t in read_texts(rows, {"text": "body"}, by_blank_line=False)] == ["x"]
    (tmp_path / "a.txt").write_text(" \n")
    with pytest.raises(DataError, match="expected text, got only empty documents"):
        read_texts(path, {}, by_blank_line=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PerplexityOptions(window=65), "--window: expected 2 to the model's context of 64 tokens, got 65"),
        (PerplexityOptions(window=1), "--window: expected 2 to"),
        (PerplexityOptions(window=8, stride=8), "--stride: expected 1 to 7, less than the window, got 8"),
    ],
)
def test_sizes_that_do_not_fit(language, options, message):
    with pytest.raises(UserError, match=message):
        perplexity(language, TEXTS, options)


def test_nothing_to_score(language):
    with pytest.raises(UserError, match="expected a document of at least two tokens"):
        perplexity(language, TEXTS[2:], PerplexityOptions())


def test_answers_are_scored_given_their_prompts(language):
    samples = [
        ResponseRecord("red green", "blue", where="a:1"),
        ResponseRecord("red", "black white black", where="a:2"),
    ]
    rows = answer_rows(language, samples)
    assert [row["where"] for row in rows] == ["a:1", "a:2"]
    for sample, row in zip(samples, rows, strict=True):
        before = tokenizer().encode_prompt([Message("user", sample.prompt)])
        answer = [*tokenizer().encode(sample.response), tokenizer().control_tokens["<|im_end|>"]]
        logp, _ = oracle(language.model, Target([*before, *answer], len(before)))
        assert row["tokens"] == len(answer)
        np.testing.assert_allclose(row["nll"], -logp.mean(), rtol=F32_RTOL)


def test_the_mean_of_rows_weighs_tokens_alike():
    rows = [{"tokens": 1, "nll": 4.0}, {"tokens": 3, "nll": 2.0}, {"tokens": 0, "nll": None}]
    assert mean_of_rows(rows) == {"tokens": 4, "nll": 2.5, "perplexity": math.exp(2.5)}
    assert mean_of_rows([]) == {"tokens": 0, "nll": None, "perplexity": None}


def test_answers_that_cannot_be_scored_are_left_out(language):
    samples = [
        ResponseRecord("red " * 60, "blue"),
        ResponseRecord("red", "blue " * 70),
        ResponseRecord("red <|im_end|>", "blue"),
        ResponseRecord("red", "<|im_end|>"),
        ResponseRecord("red", "blue"),
    ]
    rows = answer_rows(language, samples)
    assert [row["tokens"] > 0 for row in rows] == [True, False, False, False, True]
    assert rows[0]["tokens"] == rows[4]["tokens"] and rows[0]["nll"] != rows[4]["nll"]
    assert answer_rows(language, []) == []


def test_answers_without_a_template_follow_on_a_line_of_their_own(language, tmp_path):
    tokenizer().save(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    plain = Loaded(language.model, type(tokenizer()).load(tmp_path), tmp_path)
    assert not plain.tokenizer.has_template
    (row,) = answer_rows(plain, [ResponseRecord("red", "blue")])
    before, both = (tokenizer().encode(text) for text in ("red\n", "red\nblue"))
    logp, _ = oracle(language.model, Target(both, len(before)))
    np.testing.assert_allclose(row["nll"], -logp.mean(), rtol=F32_RTOL)
