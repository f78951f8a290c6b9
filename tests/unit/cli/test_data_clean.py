from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmstack.cli.data_clean import Lines
from llmstack.cli.main import main
from llmstack.data.clean.pipeline import StepReport
from llmstack.data.clean.step import Change, drop, keep
from llmstack.data.clean.tally import Excerpts
from tests.unit.data.clean.corpus import Writer, document


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A folder with a small corpus and a job that drops its short documents."""
    monkeypatch.chdir(tmp_path)
    texts = ["one two three", "short", "one two  THREE", "mail jo@example.org now please"]
    Path("data.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    Path("job.yaml").write_text(
        "data: {source: jsonl, record: text, path: data.jsonl}\n"
        "out: out\n"
        "workers: 1\n"
        "steps:\n"
        "  - {kind: length, min_words: 2}\n"
        "  - {kind: exact_duplicates}\n"
        "  - {kind: personal_data}\n"
    )
    return tmp_path


def test_a_job_writes_its_folder_and_says_what_each_step_did(job, capsys):
    assert main(["data", "clean", "job.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["read", "length", "exact_duplicates", "personal_data"]
    assert lines[1].split()[1:4] == ["4", "->", "3"] and lines[1].endswith("fewer than 2 words 1")
    assert lines[3].endswith("e-mail address 1")
    assert lines[4].startswith("2 of 4 documents, ") and "out/report.md" in lines[4]
    assert {path.name for path in Path("out").iterdir()} == {"data.jsonl", "report.json", "report.md"}
    rows = [json.loads(line) for line in Path("out/data.jsonl").read_text().splitlines()]
    assert rows == [
        {"text": "one two three", "where": "data.jsonl:1"},
        {"text": "mail <EMAIL> now please", "where": "data.jsonl:4"},
    ]
    assert json.loads(Path("out/report.json").read_text())["config"]["steps"][0]["min_words"] == 2


def test_the_command_line_changes_options_also_beside_an_earlier_result(job, capsys):
    assert main(["data", "clean", "job.yaml"]) == 0
    assert main(["data", "clean", "job.yaml", "out=other", "steps.0.min_words=1"]) == 0
    assert len(Path("other/data.jsonl").read_text().splitlines()) == 3


def test_a_folder_with_files_is_left_alone(job, capsys):
    Path("out").mkdir()
    Path("out/mine.txt").write_text("keep")
    assert main(["data", "clean", "job.yaml"]) == 2
    assert "out: expected a new or empty folder, got out, a folder with files in it" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]


def test_when_nothing_is_left_the_report_is_and_the_biggest_reason_is_named(job, capsys):
    command = ["data", "clean", "job.yaml", "steps.0.min_words=4"]
    Path("data.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": ""}\n')
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "expected documents that pass the steps, got none of 3; length dropped most (2: fewer than 4 words)" in error
    assert "out/report.md shows examples" in error
    assert {path.name for path in Path("out").iterdir()} == {"report.json", "report.md"}
    assert main([*command[:3], "steps.0.min_words=1"]) == 0  # and such a folder is no obstacle
    assert Path("out/data.jsonl").is_file()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps=[{kind: norm}]", "steps.0.kind: expected a cleaning step"),
        ("data.path=gone.jsonl", "data.path: expected an existing file"),
        ("steps=[]", "steps: expected 1 or more entries"),
        ("steps=[{kind: personal_data, phone_regions: [UK]}]", "steps.0.phone_regions: expected ISO 3166 codes"),
        (
            "steps=[{kind: decontaminate, against: {quiz: {source: text, path: gone.txt}}}]",
            "steps.0.against.quiz.path: expected an existing file",
        ),
    ],
)
def test_bad_input_ends_with_status_2_and_leaves_nothing(job, capsys, override, message):
    assert main(["data", "clean", "job.yaml", override]) == 2
    assert message in capsys.readouterr().err
    assert {path.name for path in job.iterdir()} == {"data.jsonl", "job.yaml"}


def test_bad_data_ends_with_status_2_and_leaves_nothing(job, capsys):
    Path("data.jsonl").write_text('{"text": "one two"}\n{"text": 5}\n')
    assert main(["data", "clean", "job.yaml"]) == 2
    assert "data.jsonl:2: expected a string in 'text', got int 5" in capsys.readouterr().err
    Path("data.jsonl").write_text("\n")
    assert main(["data", "clean", "job.yaml"]) == 2
    assert "expected at least one JSON object, got an empty data set" in capsys.readouterr().err
    assert {path.name for path in job.iterdir()} == {"data.jsonl", "job.yaml"}


def big_job() -> None:
    writer = Writer(30)
    rows = (json.dumps({"text": "\n".join(writer.lines())}) + "\n" for _ in range(3000))
    Path("data.jsonl").write_text("".join(rows))
    text = Path("job.yaml").read_text().replace("workers: 1", "workers: 2")
    Path("job.yaml").write_text(text + "  - {kind: near_duplicates}\n")


COMMAND = [sys.executable, "-c", "import sys; from llmstack.cli.main import main; sys.exit(main())", "data", "clean"]


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_job_that_is_stopped_leaves_no_result_and_the_next_one_is_whole(job, capsys, signum):
    big_job()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([*COMMAND, "job.yaml"], env=environment, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not list(job.glob(".tmp-out/.scratch-*/pass-0.pickle")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signum)
        process.wait(60)
    assert process.returncode == (-9 if signum == signal.SIGKILL else 128 + signum)
    assert not Path("out").exists()
    assert (signum == signal.SIGKILL) == Path(".tmp-out").exists()
    if signum == signal.SIGKILL:
        assert main(["data", "clean", "job.yaml"]) == 0
        assert {path.name for path in job.iterdir()} == {"data.jsonl", "job.yaml", "out"}
        assert {path.name for path in Path("out").iterdir()} == {"data.jsonl", "report.json", "report.md"}


def test_the_line_of_a_step_shows_the_most_frequent_reasons(capsys):
    step = StepReport("c4")
    for number, outcome in enumerate(
        [*[drop("a")] * 3, *[drop("b")] * 2, *[drop(reason) for reason in "cde"], keep("x", Change("cut", 7))]
    ):
        step.tally.add(document("text", number), outcome, Excerpts(0, 10))
    Lines().finished(step)
    line = capsys.readouterr().out
    assert line.endswith("a 3, b 2, c 1, 3 more\n")


def test_without_a_terminal_a_long_pass_says_something_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("llmstack.cli.data_clean._QUIET_SECONDS", -1.0)
    lines = Lines()
    lines.advanced(["length", "c4"], 1000, None)
    lines.advanced(["length"], 1000, 2000)
    assert capsys.readouterr().err.splitlines() == [
        "1,000 documents through length, c4",
        "1,000 of 2,000 documents through length",
    ]
