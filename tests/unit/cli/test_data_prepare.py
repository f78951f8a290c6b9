from __future__ import annotations

import re

import numpy as np
import pytest

from llmstack.cli.main import main
from llmstack.config.load import load_recipe
from llmstack.data.corpus import Corpus
from llmstack.data.indexed_writer import IndexedWriter
from llmstack.data.recipe_tokenizer import build_tokenizer
from tests.helpers.data_recipe import write_recipe

COLUMNS = re.compile(
    r"(\S+) +(\d+) documents, (\d+) tokens, (\d+) rows, [\d.]+ % filled, (\d+) left out, (\d+) cut, (.*)"
)


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "cache"))
    return str(write_recipe(tmp_path))


def prepared(capsys, *argv: str) -> dict[str, tuple[str, ...]]:
    assert main(["data", "prepare", *argv]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=1) == ["tokenizer", "280 ids in runs/small/tokenizer"]
    found = [COLUMNS.fullmatch(line) for line in lines]
    return {match[1]: match.groups()[1:] for match in found}


def test_every_option_is_encoded_once(recipe, capsys):
    first, again = prepared(capsys, recipe), prepared(capsys, recipe)
    base = ["data.parts.general.data", "data.parts.domain.data", "eval_data.of.general", "eval_data.of.domain"]
    names = [f"base.{name}" for name in base]
    names += [f"{stage}.{data}" for stage in ("sft", "rm", "policy") for data in ("data", "eval_data")]
    assert list(first) == [f"stages.{name}" for name in names]
    documents, tokens, rows, left_out, cut, rest = first["stages.base.data.parts.general.data"]
    assert (documents, left_out) == ("12", "1") and int(cut) > 0
    assert re.fullmatch(r"[\d.]+ kB in the cache, [\d.]+ s, encoded", rest)
    # training and evaluation read one file
    assert first["stages.base.eval_data.of.domain"][-1].endswith("found in the cache")
    assert {name: row[:-1] for name, row in again.items()} == {name: row[:-1] for name, row in first.items()}
    ends = {row[-1].rpartition(" s, ")[2] for name, row in again.items() if "policy" not in name}
    assert ends == {"found in the cache"}
    assert again["stages.policy.data"][-1].startswith("nothing in the cache, ")
    assert again["stages.policy.data"][-1].endswith("encoded, which is done at each start")


def test_token_files_of_others_are_read_where_they_lie(recipe, tmp_path, capsys):
    with IndexedWriter(tmp_path / "ids", np.uint16) as writer:
        writer.add_many(np.arange(6), np.array([4, 2]))
    part = "+stages.base.data.parts.ids={data: {source: megatron, path: ids}, weight: 1}"
    found = prepared(capsys, recipe, "--stage", "base", part)["stages.base.data.parts.ids.data"]
    assert found[:2] == ("2", "6")
    assert found[-1].startswith("nothing in the cache, ") and found[-1].endswith("read from where it lies")


def test_training_finds_what_was_prepared(recipe, capsys):
    prepared(capsys, recipe, "--stage", "sft")
    config = load_recipe(recipe).config
    tokenizer = build_tokenizer(config.tokenizer, seed=1, cache_dir="runs/small/tokenizer")
    documents = Corpus(tokenizer, config.seed).documents(config.stages["sft"].data, "chat")
    assert not documents.encoded_now


def test_one_stage(recipe, capsys):
    assert list(prepared(capsys, recipe, "--stage", "rm")) == ["stages.rm.data", "stages.rm.eval_data"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stage", "nobody"], "--stage: expected one of base, sft, rm, policy, got 'nobody'"),
        (["stages.policy.prompt_buckets=[8]"], "expected prompts of at most 8 tokens"),
        (["stages.rm.data.record=text"], "pairs.jsonl:1: expected field 'text'"),
    ],
)
def test_what_is_wrong_is_said_once(recipe, capsys, words, message):
    assert main(["data", "prepare", recipe, *words]) == 2
    assert capsys.readouterr().err.count(message) == 1
