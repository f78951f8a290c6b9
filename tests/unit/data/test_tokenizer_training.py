from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from llmstack.data import tokenizer_training
from llmstack.data.chat import CHATML
from llmstack.data.records import TextRecord
from llmstack.data.tokenizer import Tokenizer
from llmstack.data.tokenizer_training import (
    TrainingTexts,
    bytes_per_token,
    check_template,
    source_name,
    train_tokenizer,
)
from llmstack.errors import DataError


def write_text(path: Path, blocks) -> str:
    path.write_text("\n\n".join(blocks), encoding="utf-8")
    return str(path)


def write_rows(path: Path, texts) -> str:
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.txt", "text"),
        ("a.txt.gz", "text"),
        ("a.py", "text"),
        ("a", "text"),
        ("a.jsonl", "jsonl"),
        ("a.v1.jsonl.zst", "jsonl"),
        ("a.jsonl.gz", "jsonl"),
    ],
)
def test_the_source_by_the_ending(name, source):
    assert source_name(Path(name)) == source


def test_an_ending_that_no_source_reads(monkeypatch):
    monkeypatch.setitem(tokenizer_training._WITH_FIELDS, ".tsv", "not_registered")
    with pytest.raises(DataError, match=r"a.tsv.gz: expected text or .jsonl, got .tsv, which no source reads"):
        source_name(Path("a.tsv.gz"))


def test_each_tenth_text_is_held_out(tmp_path):
    texts = TrainingTexts([write_rows(tmp_path / "a.jsonl", [f"é{n}" for n in range(25)])])
    for _ in range(2):  # again from the start
        assert list(texts) == [f"é{n}" for n in range(25) if n not in (9, 19)]
        assert texts.held_out == ["é9", "é19"]
        assert (texts.num_texts, texts.num_bytes, texts.held_out_bytes) == (23, 9 * 3 + 14 * 4, 7)


def test_what_is_held_out_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_training, "HELD_OUT_BYTES", 8)
    files = [write_rows(tmp_path / f"{name}.jsonl", [f"{name}{n:02}" for n in range(50)]) for name in "ab"]
    texts = TrainingTexts(files)
    handed_out = list(texts)
    # half of the 8 bytes for the first file, ended by the text that reaches it
    assert texts.held_out == ["a09", "a19", "b09"]
    assert sorted([*handed_out, *texts.held_out]) == [f"{name}{n:02}" for name in "ab" for n in range(50)]


def test_a_limit_takes_of_each_file_by_its_size(tmp_path):
    files = [write_rows(tmp_path / f"{n}.jsonl", [f"{n}" * 100] * rows) for n, rows in enumerate((30, 90, 60))]
    texts = TrainingTexts(files, limit_bytes=6000)
    handed_out = list(texts)
    assert [sum(text[0] == str(n) for text in handed_out) for n in range(3)] == [10, 30, 20]
    assert texts.num_bytes == 6000


def test_a_limit_above_the_size_takes_everything(tmp_path):
    texts = TrainingTexts([write_rows(tmp_path / "a.jsonl", ["ab"] * 8)], limit_bytes=10**9)
    assert len(list(texts)) == 8


def test_files_are_read_no_further_than_needed(tmp_path, monkeypatch):
    class Endless:
        def records(self):
            return (TextRecord(f"text {n}") for n in itertools.count())

    monkeypatch.setattr(tokenizer_training, "_source", lambda path, fields: Endless())
    texts = TrainingTexts([write_rows(tmp_path / "a.jsonl", ["x"])], limit_bytes=10_000)
    tokenizer = train_tokenizer(texts, 262, CHATML)
    assert tokenizer.vocab_size == 262
    assert 10_000 <= texts.num_bytes < 10_010


def test_blank_lines_between_blocks_are_learned(tmp_path):
    texts = TrainingTexts(
        [write_text(tmp_path / "a.txt", ["one\ntwo", "three", "four"]), write_text(tmp_path / "b", "x")]
    )
    assert list(texts) == ["one\ntwo", "\n\nthree", "\n\nfour", "x"]


def test_a_file_named_twice_is_read_once(tmp_path):
    write_text(tmp_path / "a.txt", ["one"])
    texts = TrainingTexts([str(tmp_path / "*.txt"), str(tmp_path / "a.txt")])
    assert (texts.files, list(texts)) == ((tmp_path / "a.txt",), ["one"])


def test_empty_files_and_texts_are_passed_over(tmp_path):
    files = [write_text(tmp_path / "a.txt", []), write_rows(tmp_path / "b.jsonl", ["", " \n", "one"])]
    assert list(TrainingTexts(files)) == ["one"]


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_no_text_at_all(tmp_path, texts):
    with pytest.raises(DataError, match=r"a.jsonl: expected text to learn from, got only empty files"):
        list(TrainingTexts([write_rows(tmp_path / "a.jsonl", texts)]))


def test_fields_need_a_file_that_has_some(tmp_path):
    files = [write_text(tmp_path / "a.txt", ["one"])]
    with pytest.raises(DataError, match=r"fields: expected a .jsonl or .parquet file among the files, got a.txt"):
        TrainingTexts(files, fields={"text": "body"})
    (tmp_path / "b.jsonl").write_text('{"body": "two"}')
    assert list(TrainingTexts([*files, str(tmp_path / "b.jsonl")], fields={"text": "body"})) == ["one", "two"]


def test_a_fault_in_a_file_reaches_the_caller(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": 2}')
    with pytest.raises(DataError, match=r"a.jsonl:2: expected a string in 'text'"):
        train_tokenizer(TrainingTexts([str(tmp_path / "a.jsonl")]), 262, CHATML)


def test_templates_that_fit():
    check_template(CHATML, where="here")
    check_template("{% for m in messages %}{{ m.content }}<|endoftext|>{% endfor %}", where="here")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% if %}", "here template:1: expected a Jinja chat template"),
        ("{{ raise_exception('not me') }}", "not me"),
        (
            "{% for m in messages %}{{ m.content }}</s>{% endfor %}",
            "here: expected a template that ends the assistant's turn with one of <|endoftext|>, <|im_start|>, "
            "<|im_end|>, <|pad|>, got '</s>' there. Use one of these",
        ),
    ],
)
def test_templates_that_do_not(template, words):
    with pytest.raises(DataError) as caught:
        check_template(template, where="here")
    assert words in str(caught.value)


def test_a_vocabulary_too_small():
    with pytest.raises(DataError, match="vocab_size: expected at least 262 .*, got 261. Raise it"):
        train_tokenizer(["a"], 261, CHATML)


def test_bytes_per_token_by_hand(letters: Tokenizer):
    assert bytes_per_token(letters, ["abc", "de"]) == 1.0
    tokenizer = train_tokenizer(["aa aa aa"], 262, CHATML)
    # learned: aa, then a space before it; é stays two bytes
    assert bytes_per_token(tokenizer, ["aa aa", "é"]) == (5 + 2) / (2 + 2)
    assert bytes_per_token(tokenizer, []) is None
