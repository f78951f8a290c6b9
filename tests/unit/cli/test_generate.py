from __future__ import annotations

import json

import pytest

from llmstack.cli.main import main
from tests.helpers.stages import causal_folder, scalar_folder, tokenizer, write_jsonl


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = causal_folder(tmp_path_factory.mktemp("models") / "causal")
    tokenizer().save(path)
    return path


def generate(folder, *words, prompt="red green", new_tokens=5):
    return main(["generate", str(folder), "--prompt", prompt, "--max-new-tokens", str(new_tokens), *words])


def test_greedy_answers_are_repeatable(folder, capsys):
    assert generate(folder, "--temperature", "0") == 0
    first = capsys.readouterr().out
    assert generate(folder, "--temperature", "0", "--seed", "9") == 0
    assert capsys.readouterr().out == first != ""


def test_the_seed_decides_the_samples(folder, capsys):
    outputs = []
    for seed in ("1", "1", "2"):
        assert generate(folder, "--num-samples", "3", "--seed", seed, new_tokens=8) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert [f"--- {n} of 3\n" in outputs[0] for n in (1, 2, 3)] == [True] * 3


def test_a_chat_prompt_is_another_prompt(folder, capsys):
    assert generate(folder, "--temperature", "0", "--chat") == 0
    chat = capsys.readouterr().out
    assert generate(folder, "--temperature", "0") == 0
    assert capsys.readouterr().out != chat


def test_limits_are_options(folder, capsys):
    assert generate(folder, "--top-k", "1") == 0
    only_best = capsys.readouterr().out
    assert generate(folder, "--temperature", "0") == 0
    assert capsys.readouterr().out == only_best
    assert generate(folder, "--top-p", "0.5") == 0


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_several_prompts_are_told_apart(folder, capsys):
    assert generate(folder, "--prompt", "blue", "--temperature", "0") == 0
    both = capsys.readouterr().out
    assert generate(folder, "--temperature", "0") == 0
    first = capsys.readouterr().out
    assert both.startswith(f"=== prompt 1 of 2\n{first}=== prompt 2 of 2\n")


def test_a_file_of_prompts_and_a_file_of_answers(folder, tmp_path, capsys):
    turns = [{"role": "user", "content": "blue"}]
    rows = [{"question": "red green"}, {"messages": turns}, {"question": "white " * 8}]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    out = tmp_path / "out.jsonl"
    words = ["--prompts", source, "--temperature", "0", "--max-new-tokens", "5", "--num-samples", "2"]
    assert main(["generate", str(folder), *words, "--field", "prompt=question", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"6 answers to 3 prompts in {out}\n"
    found = rows_of(out)
    assert [row["prompt"] for row in found] == ["red green", turns, rows[2]["question"]]
    assert all(len(row[name]) == 2 for row in found for name in ("responses", "finished", "num_tokens", "mean_logp"))
    assert generate(folder, "--temperature", "0") == 0
    assert found[0]["responses"] == [capsys.readouterr().out[:-1]] * 2
    assert generate(folder, "--temperature", "0", "--chat", prompt="blue") == 0
    assert found[1]["responses"][0] == capsys.readouterr().out[:-1]


def test_a_text_file_has_a_prompt_on_each_line(folder, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("red green\n\nblue\n")
    words = ["generate", str(folder), "--max-new-tokens", "3", "--prompts", str(tmp_path / "in.txt")]
    assert main([*words, "--out", str(tmp_path / "o")]) == 0
    assert [row["prompt"] for row in rows_of(tmp_path / "o")] == ["red green", "blue"]


def test_an_answer_ends_before_a_stop_text(folder, capsys):
    assert generate(folder, "--temperature", "0", new_tokens=8) == 0
    free = capsys.readouterr().out[:-1]
    stop = free[2:4]
    assert generate(folder, "--temperature", "0", "--stop", stop, new_tokens=8) == 0
    assert capsys.readouterr().out[:-1] == free[: free.index(stop)]


def test_a_system_message_needs_a_conversation(folder, capsys):
    assert generate(folder, "--chat", "--system", "black") == 0
    capsys.readouterr()
    assert "--prompt: expected a conversation because of --system" in refused(capsys, folder, "--system", "black")


def refused(capsys, *args, **options):
    assert generate(*args, **options) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_no_folder(tmp_path, capsys):
    assert "expected a model folder, got none" in refused(capsys, tmp_path / "nothing")


def test_a_folder_without_a_tokenizer(tmp_path, capsys):
    assert "tokenizer" in refused(capsys, causal_folder(tmp_path / "model"))


def test_a_model_that_scores(tmp_path, capsys):
    path = scalar_folder(tmp_path / "model")
    tokenizer().save(path)
    assert "expected a language model, got one that scores" in refused(capsys, path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "no/such/folder/x.jsonl"), "--out: expected a file in an existing folder"),
        (("--out", "."), "--out: expected a file, got the folder"),
        (("--field", "prompt=q"), "--field: expected --prompts FILE.jsonl with it, got --prompt"),
        (("--stop", ""), "stop: expected a text, got an empty one"),
        (("--stop", "<|im_end|>x"), "stop: expected a text, or the control token '<|im_end|>' alone"),
    ],
)
def test_options_that_do_not_fit(folder, capsys, words, message):
    assert message in refused(capsys, folder, *words)


@pytest.mark.parametrize(
    ("name", "content", "words", "message"),
    [
        ("a.txt", " \n", (), "expected a prompt on each line, got only blank lines"),
        ("a.txt", "x", ("--field", "prompt=q"), "--field: expected a .jsonl file with it"),
        ("a.jsonl", '{"prompt": 3}', (), "a.jsonl:1: expected a string in 'prompt', got int 3"),
        ("a.jsonl", '{"text": "x"}', (), "map it with --field prompt=NAME"),
        ("a.jsonl", '{"prompt": "x"}', ("--field", "promt=q"), "--field: expected one of prompt, messages before '='"),
    ],
)
def test_files_that_do_not_fit(folder, tmp_path, capsys, name, content, words, message):
    (tmp_path / name).write_text(content)
    assert main(["generate", str(folder), "--prompts", str(tmp_path / name), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_tokenizer_of_another_model(tmp_path, capsys):
    path = causal_folder(tmp_path / "model")
    tokenizer().save(path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
    assert f"at most the model's 100 ids, got one of {tokenizer().vocab_size}" in refused(capsys, path)


def test_an_empty_prompt(folder, capsys):
    assert "--prompt: expected some text, got none" in refused(capsys, folder, prompt="")


def test_a_prompt_longer_than_the_context(folder, capsys):
    error = refused(capsys, folder, prompt="red green blue black", new_tokens=62)
    assert "prompt: expected at most 2 tokens (the model's context of 64 less 62 new ones)" in error


@pytest.mark.parametrize("temperature", ["-1", "nan", "hot"])
def test_a_bad_temperature(folder, capsys, temperature):
    assert generate(folder, "--temperature", temperature) == 2
    assert "--temperature" in capsys.readouterr().err
