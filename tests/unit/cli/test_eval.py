from __future__ import annotations

import json

import pytest

from llmstack.cli.main import main
from tests.helpers.stages import causal_folder, scalar_folder, tokenizer, write_jsonl

DATA = {
    "perplexity": [{"text": "red green"}, {"text": "blue"}],
    "exact-match": [{"prompt": "red", "answer": "1"}, {"messages": [{"role": "user", "content": "x"}], "answer": "2"}],
    "choice": [
        {"prompt": "red", "choices": ["a", "b"], "answer": 0},
        {"prompt": "", "choices": ["a", "b"], "answer": 1},
    ],
    "reward": [{"prompt": "red", "chosen": "a", "rejected": "b"}, {"prompt": "x", "chosen": "b", "rejected": "a"}],
}
FIRST = {"perplexity": "documents", "exact-match": "questions", "choice": "questions", "reward": "pairs"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    language, reward = causal_folder(root / "causal"), scalar_folder(root / "scalar")
    tokenizer().save(language)
    tokenizer().save(reward)
    return {kind: str(reward if kind == "reward" else language) for kind in DATA}


@pytest.mark.parametrize("kind", DATA)
def test_each_kind_prints_a_table_and_writes_its_files(kind, folders, tmp_path, capsys):
    data = write_jsonl(tmp_path / "data.jsonl", DATA[kind])
    numbers, rows = tmp_path / "n.json", tmp_path / "r.jsonl"
    words = ["eval", kind, folders[kind], "--data", data, "--json", str(numbers), "--rows", str(rows)]
    assert main([*words, *(["--max-new-tokens", "4"] if kind == "exact-match" else [])]) == 0
    table = dict(line.split() for line in capsys.readouterr().out.splitlines())
    found = json.loads(numbers.read_text())
    assert (found["kind"], found["model"], found["data"]) == (kind, folders[kind], data)
    assert table[FIRST[kind]] == "2" == str(found[FIRST[kind]])
    assert set(table) == set(found) - {"kind", "model", "data"}
    assert [json.loads(line)["where"] for line in rows.read_text().splitlines()] == [f"{data}:1", f"{data}:2"]


def test_options_of_exact_match(folders, tmp_path, capsys):
    data = write_jsonl(tmp_path / "data.jsonl", [{"question": "red", "answer": "1"}] * 3)
    words = ["eval", "exact-match", folders["choice"], "--data", data, "--field", "prompt=question", "--limit", "2"]
    words += ["--num-samples", "4", "--max-new-tokens", "3", "--chat", "--system", "s", "--extract", r"\d"]
    assert main([*words, "--rows", str(tmp_path / "r")]) == 0
    table = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert (table["questions"], table["samples"]) == ("2", "4")
    assert {"pass@1", "pass@2", "pass@4"} <= set(table)
    responses = json.loads((tmp_path / "r").read_text().splitlines()[0])["responses"]
    assert len(set(responses)) > 1  # several samples are not greedy


def test_options_of_perplexity(folders, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("red green\n\nblue white\n")
    words = ["eval", "perplexity", folders["choice"], "--data", str(tmp_path / "a.txt")]
    tables = []
    for more in ([], ["--split", "blank-line"], ["--split", "blank-line", "--count-end"], ["--window", "4"]):
        assert main([*words, *more]) == 0
        tables.append(dict(line.split() for line in capsys.readouterr().out.splitlines()))
    assert [table["documents"] for table in tables] == ["1", "2", "2", "1"]
    assert int(tables[2]["tokens"]) == int(tables[1]["tokens"]) + 2
    assert tables[3]["tokens"] == tables[0]["tokens"] and tables[3]["nll"] != tables[0]["nll"]


@pytest.mark.parametrize(
    ("kind", "rows", "words", "message"),
    [
        ("perplexity", [{"text": 1}], (), "data.jsonl:1: expected a string in 'text', got int 1"),
        ("perplexity", [{"text": "a b"}], ("--window", "99"), "--window: expected 2 to the model's context of 64"),
        ("perplexity", [{"text": "a"}], ("--field", "prompt=q"), "--field: expected one of text before '='"),
        ("exact-match", [{"prompt": "x"}], (), "data.jsonl:1: expected field 'answer'"),
        ("exact-match", DATA["exact-match"], ("--extract", "("), "--extract: expected a regular expression"),
        ("choice", [{"prompt": "x", "choices": ["a"], "answer": 0}], (), "expected at least two choices"),
        ("reward", [{"prompt": "x", "chosen": "a"}], (), "data.jsonl:1: expected field 'rejected'"),
        ("reward", DATA["reward"], ("--json", "/no/such/x"), "--json: expected a file in an existing folder"),
        ("reward", [], (), "expected at least one JSON object"),
    ],
)
def test_wrong_input_is_one_message_and_status_2(kind, rows, words, message, folders, tmp_path, capsys):
    data = write_jsonl(tmp_path / "data.jsonl", rows)
    assert main(["eval", kind, folders[kind], "--data", data, *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_wrong_kind_of_model(folders, tmp_path, capsys):
    data = write_jsonl(tmp_path / "data.jsonl", DATA["reward"])
    assert main(["eval", "reward", folders["choice"], "--data", data]) == 2
    assert "expected a model that scores, got a language model" in capsys.readouterr().err
    data = write_jsonl(tmp_path / "data.jsonl", DATA["choice"])
    assert main(["eval", "choice", folders["reward"], "--data", data]) == 2
    assert "expected a language model, got one that scores" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "KIND"),
        (("speed", "x"), "invalid choice: 'speed'"),
        (("choice", "x"), "--data"),
        (("choice", "x", "--data", "y", "--limit", "0"), "expected a whole number of at least 1, got 0"),
        (("choice", "x", "--data", "y", "--window", "3"), "unrecognized arguments: --window"),
    ],
)
def test_wrong_arguments(words, message, capsys):
    assert main(["eval", *words]) == 2
    assert message in capsys.readouterr().err
