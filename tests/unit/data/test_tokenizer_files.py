from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmstack.data.tokenizer_files import dump_json, read_folder, token_text
from llmstack.errors import DataError
from tests.unit.data.letters import letter_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    letter_tokenizer(template=None).save(tmp_path)
    return tmp_path


def configure(folder: Path, **settings: object) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>", **settings}))


def test_template_file_comes_before_the_config_key(folder: Path) -> None:
    configure(folder, chat_template="from the key")
    assert read_folder(folder).template == "from the key"
    (folder / "chat_template.jinja").write_text("from the file")
    assert read_folder(folder).template == "from the file"


def test_named_templates_use_the_default_one(folder: Path) -> None:
    configure(folder, chat_template=[{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}])
    assert read_folder(folder).template == "d"


@pytest.mark.parametrize(("value", "ids"), [(5, (5,)), ([5, 6], (5, 6)), (None, ())])
def test_ending_ids_of_the_generation_config(folder: Path, value: object, ids: tuple[int, ...]) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": value}))
    assert read_folder(folder).eos_ids == ids


def test_special_tokens_map_fills_in(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    assert read_folder(folder).settings == {"eos_token": "<|endoftext|>", "pad_token": "<|pad|>"}


def test_no_such_folder() -> None:
    with pytest.raises(DataError, match="no/such: expected a tokenizer folder with tokenizer.json, got no such folder"):
        read_folder(Path("no/such"))


def test_folder_without_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="got a folder without it"):
        read_folder(tmp_path)


def test_damaged_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match=r"tokenizer\.json: expected a tokenizers file, got"):
        read_folder(folder)


@pytest.mark.parametrize(("text", "found"), [("{", "Expecting"), ("[1]", "a list")])
def test_damaged_config(folder: Path, text: str, found: str) -> None:
    (folder / "tokenizer_config.json").write_text(text)
    with pytest.raises(DataError, match=rf"tokenizer_config\.json: expected a JSON object, got {found}"):
        read_folder(folder)


def test_token_text() -> None:
    assert [token_text(value) for value in ("</s>", {"content": "</s>"}, None, {"id": 1}, 3)] == [
        "</s>",
        "</s>",
        "",
        "",
        "",
    ]


def test_dump_json_is_sorted() -> None:
    assert dump_json({"b": "é", "a": 1}) == '{\n  "a": 1,\n  "b": "é"\n}\n'
