"""Reading and writing the files of a Hugging Face tokenizer folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers  # type: ignore[import-untyped]

from llmstack.errors import DataError

TEMPLATE_FILE = "chat_template.jinja"


@dataclass(frozen=True)
class TokenizerFiles:
    """What a tokenizer folder says.

    Attributes:
        backend: ``tokenizer.json``.
        settings: ``tokenizer_config.json`` over ``special_tokens_map.json``.
        template: the folder's own chat template, or None.
        eos_ids: further ids that end an answer, from ``generation_config.json``.
    """

    backend: tokenizers.Tokenizer
    settings: dict[str, Any]
    template: str | None
    eos_ids: tuple[int, ...]


def read_folder(folder: Path) -> TokenizerFiles:
    """Read a tokenizer folder.

    Args:
        folder: holds at least ``tokenizer.json``.

    Returns:
        What its files say.

    Raises:
        DataError: the folder or ``tokenizer.json`` is missing, or a file is damaged.
    """
    if not (folder / "tokenizer.json").is_file():
        raise DataError(
            f"{folder}: expected a tokenizer folder with tokenizer.json, got "
            f"{'a folder without it' if folder.is_dir() else 'no such folder'}. Correct the path."
        )
    try:
        backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception on a damaged file
        raise DataError(
            f"{folder / 'tokenizer.json'}: expected a tokenizers file, got {error}. Write it again."
        ) from error
    settings = {**_read_json(folder / "special_tokens_map.json"), **_read_json(folder / "tokenizer_config.json")}
    ends = _read_json(folder / "generation_config.json").get("eos_token_id")
    eos_ids = (ends,) if isinstance(ends, int) else tuple(ends or ())
    return TokenizerFiles(backend, settings, _own_template(folder, settings), eos_ids)


def token_text(value: Any) -> str:
    """Text of a special token, which Hugging Face files write as a string or as an object.

    Args:
        value: a value of ``tokenizer_config.json``.

    Returns:
        The token's text; empty for anything else.
    """
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _own_template(folder: Path, settings: dict[str, Any]) -> str | None:
    """The folder's chat template: its own file first, then the key of tokenizer_config.json."""
    if (folder / TEMPLATE_FILE).is_file():
        return (folder / TEMPLATE_FILE).read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {item["name"]: item["template"] for item in template}
        return named.get("default")
    return template


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: expected a JSON object, got {error}. Correct the file.") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected a JSON object, got a {type(value).__name__}. Correct the file.")
    return value


def dump_json(value: dict[str, Any]) -> str:
    """A JSON file's text, keys sorted.

    Args:
        value: a JSON object.

    Returns:
        Text that ends in a line break.
    """
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
