from __future__ import annotations

import pytest

from llmstack.cli.model_folder import load_tokenizer, say, write_model
from llmstack.errors import UserError
from llmstack.models.model_source import folder_source
from tests.helpers.stages import causal_folder, tokenizer


def test_what_is_said(tmp_path, capsys):
    path = causal_folder(tmp_path / "source")
    tokenizer().save(path)
    source = folder_source(path)
    write_model(source, load_tokenizer(path), tmp_path / "out", dtype="float16", max_shard_bytes=10**9)
    names = [line.split("  ")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert [name.split(" ")[0] for name in names] == ["family", "parameters", "stored", "tokenizer", "written"]


def test_say(capsys):
    say("family", "llama")
    assert capsys.readouterr().out == "family     llama\n"


def test_a_folder_without_tokenizer_json(tmp_path):
    with pytest.raises(UserError, match="expected tokenizer.json beside the weights, got none. Save the tokenizer"):
        load_tokenizer(tmp_path)
