from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from llmstack.cli.main import main
from llmstack.config.data import TokenizerConfig
from llmstack.data.recipe_tokenizer import build_tokenizer
from llmstack.data.records import Message
from llmstack.data.tokenizer import Tokenizer

PARAGRAPHS = [f"Chapter {n}.\nReturn the value of option number {n}, then close the file." for n in range(40)]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}"
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A text file and a .jsonl file."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("\n\n".join(PARAGRAPHS), encoding="utf-8")
    lines = [json.dumps({"content": f"the other option, number {n}"}) for n in range(20)]
    (folder / "b.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def train(out: Path, *words: object, vocab_size: int = 300) -> int:
    return main(["tokenizer", "train", "--out", str(out), "--vocab-size", str(vocab_size), *map(str, words)])


def test_a_folder_that_recipes_read(files, tmp_path, capsys):
    out = tmp_path / "made" / "tokenizer"
    assert train(out, files / "a.txt", files / "b.jsonl", "--field", "text=content") == 0
    printed, shown = capsys.readouterr()
    assert shown == "", "progress is for terminals"
    lines = dict(line.split(maxsplit=1) for line in printed.replace("learned on", "learned_on").splitlines())
    assert lines["learned_on"].startswith("54 texts of 2 files, 0.0 MB")
    assert lines["vocabulary"] == "300 ids"
    assert lines["special"] == "<|endoftext|> 0, <|im_start|> 1, <|im_end|> 2, <|pad|> 3"
    assert lines["folder"].startswith(f"{out} in ")
    tokenizer = build_tokenizer(TokenizerConfig(kind="folder", path=str(out)), seed=1)
    assert (tokenizer.vocab_size, tokenizer.has_template) == (300, True)
    held_out = [f"\n\n{text}" for text in PARAGRAPHS[9::10]]
    held_out += [f"the other option, number {n}" for n in (9, 19)]
    num_tokens = sum(len(tokenizer.encode(text)) for text in held_out)
    num_bytes = sum(map(len, held_out))
    assert printed.count(f"per token  {num_bytes / num_tokens:.2f} bytes on 6 texts held out, 0.0 MB") == 1


def test_the_same_text_gives_the_same_folder(files, tmp_path):
    for name in ("one", "two"):
        assert train(tmp_path / name, files / "a.txt") == 0
    contents = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert contents[0] == contents[1] and "tokenizer.json" in contents[0]


def test_an_own_template(files, tmp_path):
    (tmp_path / "own.jinja").write_text(TEMPLATE)
    assert train(tmp_path / "out", files / "a.txt", "--template", tmp_path / "own.jinja") == 0
    tokenizer = Tokenizer.load(tmp_path / "out")
    prompt = [Message("user", "hi")]
    assert tokenizer.decode(tokenizer.encode_prompt(prompt), skip_special=False) == (
        "<|im_start|>user: hi<|im_end|><|im_start|>assistant: "
    )


def test_a_limit_is_kept(files, tmp_path, capsys):
    assert train(tmp_path / "out", files / "a.txt", "--limit-bytes", "1KB") == 0
    assert "learned on 15 texts of 1 file, 0.0 MB" in capsys.readouterr().out


def test_too_few_texts_to_hold_one_out(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("one text only, but long enough for a token or two, or two")
    assert train(tmp_path / "out", tmp_path / "a.txt", vocab_size=262) == 0
    assert "per token  not measured: fewer than 10 texts, so none was held out" in capsys.readouterr().out


def test_mindspore_is_not_loaded(files, tmp_path):
    argv = ["tokenizer", "train", "--out", str(tmp_path / "out"), "--vocab-size", "300", str(files / "a.txt")]
    code = (
        f"import sys; from llmstack.cli.main import main; status = main({argv!r}); "
        "assert 'mindspore' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing*.txt"], "expected an existing file or a glob that matches one"),
        (["a.txt", "--field", "text=body"], "--field: expected a .jsonl or .parquet file among the files, got a.txt"),
        (["b.jsonl", "--field", "content=text"], "--field: expected one of text before '=', got content=text"),
        (["b.jsonl"], "b.jsonl:1: expected field 'text', got fields 'content'. Add it, or map it with --field text="),
        (["bad.txt"], "bad.txt:2: expected UTF-8 text, got byte 0xff"),
        (["empty.txt"], "empty.txt: expected text to learn from, got only empty files"),
        (["a.txt", "--vocab-size", "261"], "--vocab-size: expected at least 262, got 261"),
        (["a.txt", "--template", "llama"], "--template: expected chatml or a Jinja file. llama: expected"),
        (["a.txt", "--template", "syntax.jinja"], "syntax.jinja template:1: expected a Jinja chat template, got"),
        (["a.txt", "--template", "other.jinja"], "other.jinja: expected a template that ends the assistant's turn"),
    ],
)
def test_what_is_refused_leaves_nothing(files, monkeypatch, capsys, words, message):
    monkeypatch.chdir(files)
    Path("bad.txt").write_bytes(b"fine\nnot \xff fine\n")
    Path("empty.txt").write_text("")
    Path("syntax.jinja").write_text("{% for %}")
    Path("other.jinja").write_text(TEMPLATE.replace("<|im_end|>", "<|eot_id|>"))
    before = sorted(files.iterdir())
    assert train(files / "out", *words) == 2
    assert message in capsys.readouterr().err
    assert sorted(files.iterdir()) == before


def test_a_folder_that_is_not_empty_is_left_alone(files, capsys):
    before = sorted(files.iterdir())
    assert train(files, files / "a.txt") == 2
    assert "--out: expected a new or empty folder" in capsys.readouterr().err
    assert sorted(files.iterdir()) == before
