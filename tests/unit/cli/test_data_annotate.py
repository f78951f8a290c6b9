from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from llmstack.cli.main import main
from tests.helpers.annotation import Job, classing, read_rows, write_rows
from tests.helpers.chat_server import ChatServer, stall
from tests.helpers.stages import causal_folder, tokenizer


@pytest.fixture
def server():
    with ChatServer(classing) as running:
        yield running


@pytest.fixture
def job(tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    return Job(tmp_path, server.url)


def command(job, *overrides):
    return main(["data", "annotate", job.write(), *overrides])


def test_a_round_is_told(job, server, capsys):
    assert command(job) == 0
    assert capsys.readouterr().out == (
        "items    5 items\n"
        "judge    6 requests, 0 answers kept from before, 1 asked again, 1 unreadable, 60 + 18 tokens\n"
        "records  4 in made/records.jsonl: 4 automatic\n"
        "queue    1 in made/queue.jsonl: 1 unreadable\n"
        "report   made/report.md\n"
        "Fill in `label` in the queue, then run this again.\n"
    )
    job.fill(lambda row: "good")
    assert command(job) == 0
    out = capsys.readouterr().out
    assert "judge    0 requests, 6 answers kept from before" in out
    assert out.endswith("queue    0 in made/queue.jsonl\nreport   made/report.md\n")
    assert len(server.seen) == 6


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["annotators.judge.kind=oracle"], "annotators.judge.kind: expected an annotator kind"),
        (["data.path=nothing.jsonl"], "data.path: expected an existing file"),
        (
            ["annotators.judge.url=http://127.0.0.1:1/v1", "annotators.judge.retries=0"],
            "0 of 5 answers of judge are in",
        ),
        (["data.record=preference"], "expected field 'chosen'"),
    ],
)
def test_wrong_input_is_one_message(job, capsys, overrides, message):
    assert command(job, *overrides) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_mindspore_is_not_loaded_for_servers(job):
    code = (
        "import sys\nfrom llmstack.cli.main import main\nstatus = main(sys.argv[1:])\n"
        "sys.exit(status or 10 * ('mindspore' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "data", "annotate", job.write()], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_keeps_what_is_there(job, server):
    server.faults += [None, None, stall]
    code = "import sys; from llmstack.cli.main import main; sys.exit(main())"
    path = job.write()
    process = subprocess.Popen(
        [sys.executable, "-c", code, "data", "annotate", path, "annotators.judge.concurrency=1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(server.seen) < 3:
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    assert "interrupted" in process.stderr.read()
    process.stderr.close()
    before = len(server.seen)
    assert command(job) == 0
    assert len(server.seen) - before == 3 + 1


def test_a_model_of_this_machine_labels_and_compares(job, tmp_path, capsys):
    folder = causal_folder(tmp_path / "model")
    tokenizer().save(folder)
    write_rows("in.jsonl", [{"prompt": text} for text in ("red", "green", "blue")])
    write_rows("people.jsonl", [{"prompt": "red", "response": "black"}])
    job.tree |= {
        "task": "response",
        "labels": [],
        "overlap": 1.0,
        "annotators": {
            "local": {"kind": "model", "path": str(folder), "max_tokens": 8},
            "people": {"kind": "human", "path": "people.jsonl"},
        },
        "compare": {"model": str(folder)},
    }
    assert command(job) == 0
    out = capsys.readouterr().out
    assert "local       3 requests" in out and "of 1 human label\n" in out
    rows = {row["prompt"]: row for row in read_rows("made/records.jsonl")}
    assert (rows["red"]["response"], rows["red"]["label_source"]) == ("black", "human")
    assert command(job) == 0
    assert "local       0 requests" in capsys.readouterr().out
