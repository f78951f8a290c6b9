"""The whole chain through the command line: once straight, then skipped, changed, killed and gone on with."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from llmstack.cli.main import main
from llmstack.errors import Interrupted
from tests.integration.tiny_run import (
    ROOT,
    STAGES,
    command,
    environment,
    metrics,
    overrides,
    summary,
    train,
    wait_for_steps,
)


def test_every_stage_is_done_and_in_the_summary(straight):
    told = summary(straight)
    assert told["status"] == "done"
    assert [stage["status"] for stage in told["stages"].values()] == ["done"] * 4
    assert list(told["stages"]) == list(STAGES)
    base, _, rm, policy = told["stages"].values()
    assert base["metrics"]["eval/perplexity"] < base["metrics"]["eval/perplexity_first"]
    assert 0 <= rm["metrics"]["eval/accuracy"] <= 1
    assert {"eval/style_rate", "eval/style_rate_first", "eval/kl_policy_ref"} <= set(policy["metrics"])
    for name, stage in told["stages"].items():
        assert stage["final"] == f"{name}/final" and (straight / stage["final"] / "model.safetensors").is_file()
        assert stage["tokens"] > 0 and stage["graphs"] > 0 and stage["wall_seconds"] > 0


def test_the_log_starts_on_the_reference(straight):
    first = next(line for line in metrics(straight, "policy") if "train/kl_policy_ref" in line)
    assert abs(first["train/kl_policy_ref"]) < 1e-6
    assert first["train/sampler_mismatch"] < 1e-4


@pytest.mark.parametrize("stage", STAGES)
def test_the_rows_of_a_step_can_be_shown(straight, capsys, stage):
    lines = (straight / stage / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == summary(straight)["stages"][stage]["steps"]
    for line in (lines[0], lines[-1]):
        read = json.loads(line)
        argv = ["data", "show", "quickstart", *overrides(straight), "--stage", stage, "--step", str(read["step"])]
        assert main(argv) == 0
        shown = re.findall(r"^=== row (\S+):(\d+) of", capsys.readouterr().out, flags=re.MULTILINE)
        assert shown == [(part, str(row)) for part, rows in read["rows"].items() for row in rows]


def test_the_same_command_again_trains_nothing(straight):
    before = {name: (straight / name / "final" / "model.safetensors").stat().st_mtime_ns for name in STAGES}
    started = time.monotonic()
    assert train(straight).returncode == 0
    assert time.monotonic() - started < 30
    after = {name: (straight / name / "final" / "model.safetensors").stat().st_mtime_ns for name in STAGES}
    assert after == before
    assert summary(straight)["status"] == "done"


def test_a_changed_option_runs_only_what_depends_on_it(straight, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(straight, folder)
    before = {name: (folder / name / "final" / "model.safetensors").stat().st_mtime_ns for name in STAGES}
    done = train(folder, "stages.policy.kl.beta=0.2")
    assert done.returncode == 0, done.stderr
    changed = [
        name for name in STAGES if (folder / name / "final" / "model.safetensors").stat().st_mtime_ns != before[name]
    ]
    assert changed == ["policy"]
    assert len(list(folder.glob("policy.old-*"))) == 1


@pytest.mark.parametrize(
    "hows",
    [[signal.SIGKILL] * 4, [signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGINT]],
    ids=["killed", "asked"],
)
def test_a_stopped_run_goes_on_to_the_same_numbers(straight, tmp_path, hows):
    """Stopped once in the middle of every stage; logs and weights are those of the run that was not."""
    folder = tmp_path / "run"
    for stage, how in zip(STAGES, hows, strict=True):
        process = subprocess.Popen(
            command(folder), cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        wait_for_steps(folder / stage / "metrics.jsonl", 3 if stage == "policy" else 8, process)
        process.send_signal(how)
        _, errors = process.communicate(timeout=120)
        if how != signal.SIGKILL:
            assert process.returncode == 128 + how, errors
            assert summary(folder)["status"] == "interrupted"
            assert f"llmstack: {Interrupted(how)}\n" in errors
            newest = max((folder / stage / "checkpoints").glob("step_*"))
            assert int(newest.name.removeprefix("step_")) >= (3 if stage == "policy" else 8)
    done = train(folder)
    assert done.returncode == 0, done.stderr
    for stage in STAGES:
        assert metrics(folder, stage) == metrics(straight, stage)
        rows = [(run / stage / "rows.jsonl").read_text(encoding="utf-8") for run in (folder, straight)]
        assert rows[0] == rows[1] != ""
        weights = [(run / stage / "final" / "model.safetensors").read_bytes() for run in (folder, straight)]
        assert weights[0] == weights[1]
    assert summary(folder)["status"] == "done"


def test_two_runs_in_one_folder_are_refused(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    import fcntl

    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(os.getpid()))
        lock.flush()
        done = train(folder)
    assert done.returncode == 2
    assert "in use by process" in done.stderr and "Traceback" not in done.stderr


def test_a_run_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = train(tmp_path / "file" / "run")
    assert done.returncode == 2
    assert done.stderr.startswith("llmstack: run_dir: expected a folder that can be written")


def test_the_policy_writes(straight):
    program = "import sys; from llmstack.cli.main import main; sys.exit(main())"
    asked = ["generate", str(straight / "policy" / "final"), "--prompt", "def f(x):", "--chat"]
    told = []
    for more in (
        ["--num-samples", "2", "--seed", "5"],
        ["--num-samples", "2", "--seed", "5"],
        ["--max-new-tokens", "0"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *asked, *more], cwd=ROOT, env=environment(), capture_output=True, text=True
        )
        told.append((done.returncode, done.stdout))
    assert told[0][0] == 0 and told[0] == told[1]
    assert told[2][0] == 2
