from __future__ import annotations

import json

import pytest

from llmstack.cli.main import main
from tests.helpers.stages import causal_folder, scalar_folder, tokenizer


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
