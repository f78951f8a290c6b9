from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from llmstack.cli import chat as module
from llmstack.cli.main import main
from llmstack.data.field_map import FieldMap
from llmstack.data.jsonl import json_rows
from llmstack.engine.stop import Interrupts
from tests.helpers.stages import causal_folder, scalar_folder, tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = causal_folder(tmp_path_factory.mktemp("models") / "causal")
    tokenizer().save(path)
    return path


@pytest.fixture
def talk(folder, monkeypatch, capsys):
    """What a conversation prints, and what it remarks."""

    def run(*lines, words=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        assert main(["chat", str(folder), "--temperature", "0", "--max-new-tokens", "4", *words]) == 0
        return capsys.readouterr()

    return run


def test_a_turn_is_a_line_and_so_is_its_answer(talk, folder, capsys):
    said = talk("red", "", "  ")
    assert main(["generate", str(folder), "--prompt", "red", "--chat", "--temperature", "0",
                 "--max-new-tokens", "4"]) == 0  # fmt: skip
    assert said.out == capsys.readouterr().out
    assert said.err in ("", "[cut off at 4 tokens (--max-new-tokens)]\n")


def test_exit_ends_and_what_follows_is_not_read(talk):
    assert talk("/exit", "red").out == ""


def test_help_and_unknown_commands(talk):
    said = talk("/help", "/hlep", " /x")
    assert said.out.startswith(module.HELP) and len(said.out) > len(module.HELP)
    assert "[/hlep: expected one of /reset, /system, /save, /help, /exit." in said.err


def test_saving(talk, tmp_path):
    path = tmp_path / "a.jsonl"
    said = talk("/save x", "/system black", "red", "/save", f"/save {tmp_path / 'no' / 'x'}", f"/save {path}", "/reset",
                "/system", "blue", f"/save {path}")  # fmt: skip
    rows = [row.messages("messages") for row in json_rows(str(path), FieldMap())]
    assert [[turn.role for turn in turns] for turns in rows] == [["system", "user", "assistant"], ["user", "assistant"]]
    assert [rows[0][0].content, rows[0][1].content, rows[1][0].content] == ["black", "red", "blue"]
    assert [line for line in said.err.splitlines() if "save" in line or "added" in line] == [
        "[/save: expected something said before, got nothing.]",
        "[/save: expected the name of a file, got nothing.]",
        f"[/save: expected a file that can be written, got {tmp_path / 'no' / 'x'} (No such file or directory). "
        "Name another one.]",
        f"[3 messages added to {path}]",
        f"[2 messages added to {path}]",
    ]


def test_a_full_context_is_said_and_the_conversation_goes_on(talk):
    said = talk("white " * 80, "red")
    assert "[context is full: expected a conversation below 64 tokens, got" in said.err
    assert said.out.count("\n") >= 1


def test_control_c_stops_the_answer_only(talk, monkeypatch):
    whole = talk("red", words=("--max-new-tokens", "30")).out
    show = module._print

    def interrupt(text):
        show(text)
        if text and text != "\n":
            monkeypatch.setattr(module, "_print", show)
            Interrupts._receivers[-1](signal.SIGINT)  # what the waiting thread does

    monkeypatch.setattr(module, "_print", interrupt)
    said = talk("red", "/help", words=("--max-new-tokens", "30"))
    answer, _, rest = said.out.partition(module.HELP)
    assert whole.startswith(answer[:-1]) and len(answer) < len(whole)
    assert rest == "" and "[stopped]\n" in said.err


def test_control_c_at_the_prompt_ends_nothing_after_a_graph_has_run(folder):
    ours, terminal = pty.openpty()
    code = "import sys; from llmstack.cli.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "chat", str(folder), "--max-new-tokens", "2", "--threads", "1"],
        stdin=terminal, stdout=terminal, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "dumb"},
    )  # fmt: skip
    try:
        read_until(ours, b"> ")
        os.write(ours, b"red\n")
        read_until(ours, b"> ")  # the answer stands before it
        time.sleep(0.3)  # readline shows the prompt before it waits, and hears of no signal in between
        process.send_signal(signal.SIGINT)
        read_until(ours, b"> ")
        os.write(ours, b"/exit\n")
        _, remarks = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(ours)
        os.close(terminal)
    assert process.returncode == 0
    assert b"[/exit or Ctrl-D ends]" in remarks


def read_until(terminal, mark):
    heard = b""
    while not heard.endswith(mark):
        assert select.select([terminal], [], [], 60)[0], heard
        heard += os.read(terminal, 1)


def test_through_a_pipe_with_bytes_that_are_no_text(folder):
    code = "import sys; from llmstack.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "chat", str(folder), "--max-new-tokens", "3", "--threads", "1"],
        input=b"na\xefve\nred", capture_output=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0
    assert b"[input: expected UTF-8 text, got other bytes." in done.stderr
    assert done.stdout.endswith(b"\n")
    assert b"Traceback" not in done.stderr


def test_models_that_do_not_chat(folder, tmp_path, capsys):
    path = scalar_folder(tmp_path / "model")
    tokenizer().save(path)
    assert main(["chat", str(path)]) == 2
    assert "expected a language model, got one that scores" in capsys.readouterr().err
    assert main(["chat", str(tmp_path / "nothing")]) == 2
    assert "expected a model folder, got none" in capsys.readouterr().err


def test_a_saved_line_is_json(talk, tmp_path):
    talk("red", f"/save {tmp_path / 'a'}")
    assert list(json.loads((tmp_path / "a").read_text())) == ["messages"]
