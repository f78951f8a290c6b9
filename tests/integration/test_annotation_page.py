"""docs/annotation.md: its files are written, its commands run, and what they print is what the page shows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmstack.config.annotation import EndpointConfig
from llmstack.config.data import JsonlConfig
from llmstack.data.records import PreferenceRecord
from llmstack.data.sources import Jsonl
from llmstack.registry import ANNOTATORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "annotation.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, flags=re.DOTALL))
SESSIONS = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
PORT = "8080"


@pytest.fixture
def judge(tmp_path):
    """The page's files in a folder, its judge at a free port, and the environment of its commands."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace(f":{PORT}/", f":{port}/"), encoding="utf-8")
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "llmstack"
    start = f"exec {sys.executable} -c 'import sys; from llmstack.cli.main import main; sys.exit(main())'"
    program.write_text(f'#!/bin/sh\n{start} "$@"\n')
    program.chmod(0o755)
    process = subprocess.Popen([sys.executable, "judge.py", str(port)], cwd=tmp_path)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    yield tmp_path, environment
    process.terminate()
    process.wait()


def commands():
    """Each command of the page and what it prints."""
    found = []
    for session in SESSIONS:
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def test_the_page_is_what_happens(judge):
    folder, environment = judge
    assert len(commands()) == 6
    for command, output in commands():
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            environment[name] = value
            continue
        done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, check=False, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b""), command
        assert done.stdout.decode() == output, command
    assert not any(b"sk-for-show-only" in path.read_bytes() for path in (folder / "labels").rglob("*.*"))
    config = JsonlConfig(source="jsonl", path=str(folder / "labels/judge/records.jsonl"), record="preference")
    records = list(Jsonl(config, seed=0).records())
    assert len(records) == 8 and all(isinstance(record, PreferenceRecord) for record in records)


def test_the_table_of_options_has_every_option_of_an_endpoint():
    table = PAGE.partition("**`endpoint`**")[2].partition("**`model`**")[0]
    listed = {
        name
        for line in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)`", line)
    }
    assert listed == set(EndpointConfig.model_fields) - {"kind"}


def test_the_page_names_every_kind_and_reason():
    for kind in ANNOTATORS.names():
        assert f"**`{kind}`**" in PAGE
    source = (ROOT / "llmstack" / "annotation" / "votes.py").read_text(encoding="utf-8")
    reasons = re.search(r"^Why = Literal\[(.*?)\]", source, flags=re.MULTILINE).group(1)
    assert set(re.findall(r'"(\w+)"', reasons)) == set(
        re.findall(r"^\| `(\w+)` \|", PAGE.partition("## What goes to people")[2].partition("## The report")[0], re.M)
    )
