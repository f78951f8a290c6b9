from __future__ import annotations

import sys
import types

import pytest

from llmstack.cli.main import main


def test_the_job_has_help(capsys):
    assert main(["tokenizer", "train", "--help"]) == 0
    out = capsys.readouterr().out
    assert "usage: llmstack tokenizer train" in out
    assert all(option in out for option in ("--out", "--vocab-size", "--field", "--template", "--limit-bytes"))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "JOB"),
        (["trian"], "invalid choice: 'trian'"),
        (["train", "a.txt", "--vocab-size", "300"], "--out"),
        (["train", "a.txt", "--out", "dir"], "--vocab-size"),
        (["train", "--out", "dir", "--vocab-size", "300"], "FILE"),
        (["train", "a.txt", "--out", "dir", "--vocab-size", "4k"], "expected a whole number of at least 1, got 4k"),
        (["train", "a", "--out", "d", "--vocab-size", "300", "--limit-bytes", "200"], "--limit-bytes: expected a size"),
        (["train", "a", "--out", "d", "--vocab-size", "300", "--field", "text"], "expected OURS=NAME, got 'text'"),
        (["train", "a", "--out", "d", "--vocab", "300"], "--vocab-size"),
    ],
)
def test_wrong_arguments(argv, words, capsys):
    assert main(["tokenizer", *argv]) == 2
    assert words in capsys.readouterr().err


def test_what_the_job_is_given(monkeypatch):
    seen = []
    monkeypatch.setitem(
        sys.modules, "llmstack.cli.tokenizer_train", types.SimpleNamespace(run=lambda args: seen.append(vars(args)))
    )
    assert main(["tokenizer", "train", "a.txt", "b*.jsonl", "--out", "dir", "--vocab-size", "300"]) == 0
    argv = ["tokenizer", "train", "--out", "dir", "--vocab-size", "300", "--field", "text=content"]
    assert main([*argv, "--template", "own.jinja", "--limit-bytes", "200MB", "a.txt"]) == 0
    expected = {
        "files": ["a.txt", "b*.jsonl"], "out": "dir", "vocab_size": 300, "field": [], "template": "chatml",
        "limit_bytes": None, "module": "tokenizer_train",
    }  # fmt: skip
    given = {"files": ["a.txt"], "field": [("text", "content")], "template": "own.jinja", "limit_bytes": 200_000_000}
    assert seen == [expected, expected | given]
