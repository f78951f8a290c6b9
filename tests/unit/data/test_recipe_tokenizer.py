from __future__ import annotations

from pathlib import Path

import pytest

from llmstack.config.data import JsonlConfig, TokenizerConfig
from llmstack.data.chat import CHATML
from llmstack.data.recipe_tokenizer import build_tokenizer
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from tests.unit.data.letters import letter_tokenizer


def text_config(tmp_path: Path, text: str, **options: object) -> TokenizerConfig:
    (tmp_path / "corpus.txt").write_text(text)
    data = {"source": "text", "path": str(tmp_path / "corpus.txt")}
    return TokenizerConfig(**{"kind": "bpe", "vocab_size": 300, "data": data, **options})


def test_build_bpe(tmp_path: Path) -> None:
    config = text_config(tmp_path, "return the value of the option " * 3)
    tokenizer = build_tokenizer(config, seed=1)
    assert tokenizer.fingerprint() == build_tokenizer(config, seed=2).fingerprint()
    assert tokenizer.template.source == CHATML


def test_build_bpe_uses_its_cache_only_for_the_same_texts(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    config = text_config(tmp_path, "return the value " * 3)
    first = build_tokenizer(config, seed=1, cache_dir=cache)
    stamp = (cache / "tokenizer.json").stat().st_mtime_ns
    assert build_tokenizer(config, seed=1, cache_dir=cache).fingerprint() == first.fingerprint()
    assert (cache / "tokenizer.json").stat().st_mtime_ns == stamp
    changed = build_tokenizer(text_config(tmp_path, "close a file " * 3), seed=1, cache_dir=cache)
    assert changed.fingerprint() != first.fingerprint()
    assert Tokenizer.load(cache).fingerprint() == changed.fingerprint()


@pytest.mark.parametrize("cached", [False, True])
def test_build_bpe_says_what_is_wrong_with_its_texts(tmp_path: Path, cached: bool) -> None:
    cache = tmp_path / "cache" if cached else None
    with pytest.raises(DataError, match="expected text, got only empty files"):
        build_tokenizer(text_config(tmp_path, " "), seed=1, cache_dir=cache)
    config = text_config(tmp_path, "a")
    (tmp_path / "rows.jsonl").write_text('{"text": ""}\n')
    rows = JsonlConfig(source="jsonl", path=str(tmp_path / "rows.jsonl"), record="text")
    with pytest.raises(DataError, match=r"tokenizer\.data: expected text to train on, got an empty data set"):
        build_tokenizer(config.model_copy(update={"data": rows}), seed=1, cache_dir=cache)
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n' * 5000 + "{")
    with pytest.raises(DataError, match=r"rows\.jsonl:5001: expected one JSON object"):
        build_tokenizer(config.model_copy(update={"data": rows}), seed=1, cache_dir=cache)


def test_build_from_folder(tmp_path: Path) -> None:
    letter_tokenizer(template=None).save(tmp_path / "bare")
    letter_tokenizer().save(tmp_path / "own")
    (tmp_path / "mine.jinja").write_text("{{ messages[0].content }}<|im_end|>")
    folder = TokenizerConfig(kind="folder", path=str(tmp_path / "bare"))
    assert build_tokenizer(folder, seed=1).template.source == CHATML
    own = TokenizerConfig(kind="folder", path=str(tmp_path / "own"))
    assert build_tokenizer(own, seed=1).fingerprint() == letter_tokenizer().fingerprint()
    mine = own.model_copy(update={"chat_template": str(tmp_path / "mine.jinja")})
    assert build_tokenizer(mine, seed=1).template.source == "{{ messages[0].content }}<|im_end|>"


def test_build_with_a_missing_template_file(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"tokenizer.chat_template: expected chatml or a Jinja file. no.jinja: .*No such"
    ):
        build_tokenizer(text_config(tmp_path, "a", chat_template="no.jinja"), seed=1)


def test_build_needs_the_options_of_its_kind() -> None:
    with pytest.raises(DataError, match="tokenizer.path: expected a tokenizer folder"):
        build_tokenizer(TokenizerConfig.model_construct(kind="folder", chat_template="chatml", path=None), seed=1)
    with pytest.raises(DataError, match="expected data and vocab_size for kind bpe"):
        build_tokenizer(
            TokenizerConfig.model_construct(kind="bpe", chat_template="chatml", data=None, vocab_size=300), seed=1
        )
