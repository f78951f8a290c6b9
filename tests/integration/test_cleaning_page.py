"""docs/cleaning.md: its job is run on a corpus with planted faults, its own step used, its table complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llmstack.cli.main import main
from llmstack.registry import CLEANERS
from tests.integration.tiny_run import environment
from tests.unit.data.clean.corpus import PERSONAL, Writer, with_boilerplate, with_contamination, with_copies

PAGE = (Path(__file__).parents[2] / "docs" / "cleaning.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, flags=re.DOTALL))
JOB = (
    "data: {source: jsonl, record: text, path: crawl.jsonl}\n"
    "plugins: [my_cleaners]\n"
    "out: loud\n"
    "workers: 2\n"
    "steps:\n"
    "  - {kind: shouting, max_ratio: 0.3}\n"
)


@pytest.fixture
def crawl(tmp_path, monkeypatch):
    """The page's files, and a crawl in which each fault was planted as often as this says."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    writer = Writer(40)
    questions = [f"{writer.sentence()} {writer.sentence()}" for _ in range(8)]
    texts = [
        *with_copies(41, originals=100, copies=15, edits=2).texts,
        *with_copies(42, originals=50, copies=12, edits=0).texts,
        *with_boilerplate(43, originals=30, planted=15).texts,
        *with_contamination(44, questions, originals=20).texts,
        *("too short",) * 7,
        *("\n".join(writer.lines()) + f"\nWrite to {items[0]}." for items in PERSONAL.values()),
    ]
    write("crawl.jsonl", [{"text": text} for text in texts])
    write("quiz.jsonl", [{"prompt": question} for question in questions])
    return {"length": 7, "exact_duplicates": 12, "near_duplicates": 15, "decontaminate": 8}


def write(name, rows):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_the_job_finds_what_was_planted(crawl, capsys):
    assert main(["data", "clean", "clean.yaml"]) == 0
    report = json.loads(Path("cleaned/report.json").read_text(encoding="utf-8"))
    steps = {step["kind"]: step for step in report["steps"]}
    found = {name: steps[name]["documents_in"] - steps[name]["documents_out"] for name in crawl}
    assert found == crawl
    assert steps["repeated_lines"]["changed"]["lines all over the corpus"]["count"] == 45
    assert {what: item["count"] for what, item in steps["personal_data"]["changed"].items()} == dict.fromkeys(
        PERSONAL, 1
    )
    printed = re.findall(r"^(\w+) +[\d,]+ -> ", capsys.readouterr().out, flags=re.MULTILINE)
    assert printed == re.findall(r"^(\w+) +[\d,]+ -> ", PAGE, flags=re.MULTILINE) == list(steps)


def test_a_step_of_ones_own_works_in_other_processes(crawl):
    write("crawl.jsonl", [{"text": f"Quiet {number}"} for number in range(300)] + [{"text": "LOUD"}] * 3)
    Path("own.yaml").write_text(JOB, encoding="utf-8")
    program = "import sys; from llmstack.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "data", "clean", "own.yaml"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "300 documents" in done.stdout and "capitals 3" in done.stdout


def test_the_commands_for_several_machines_work(crawl, monkeypatch):
    steps = FILES["clean.yaml"].partition("steps:")[0] + "steps:\n"
    Path("clean.yaml").write_text(f"{steps}  - {{kind: length, min_words: 20}}\n", encoding="utf-8")
    Path("dedup.yaml").write_text(f"{steps}  - kind: exact_duplicates\n", encoding="utf-8")
    command = re.search(r"llmstack (data clean clean\.yaml .*?) +#", PAGE)[1]
    for index in range(2):
        words = command.replace("$SLURM_ARRAY_TASK_ID", str(index)).replace("16", "2")
        assert main([word.strip('"') for word in re.findall(r'"[^"]*"|\S+', words)]) == 0
    assert main(["data", "clean", "dedup.yaml", "data.path=parts/*/data.jsonl", "out=cleaned"]) == 0
    report = json.loads(Path("cleaned/report.json").read_text(encoding="utf-8"))
    crawled = len(Path("crawl.jsonl").read_text(encoding="utf-8").splitlines())
    assert report["documents_in"] == crawled - crawl["length"]
    assert report["documents_out"] == report["documents_in"] - crawl["exact_duplicates"]


def test_the_table_has_every_step():
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## The steps")[2].partition("## How")[0], flags=re.MULTILINE)
    assert sorted(rows) == [name for name in CLEANERS.names() if name != "shouting"]
