"""A run's folder: lock, run.json, summary.json, moving outdated stages aside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from llmstack.engine.fingerprint import StageIdentity
from llmstack.engine.record import StageResult
from llmstack.engine.run_folder import RunFolder
from llmstack.errors import Interrupted, RunFolderError, RunHalted

RESOLVED = {"name": "demo", "stages": {"base": {"kind": "pretrain"}, "policy": {"kind": "ppo", "beta": 0.1}}}
RESULT = StageResult(3, 30, 1.5, 0.5, 20.0, 1, {"train/loss_first": 4.0, "train/loss": 2.0})


def run_folder(path, **options):
    return RunFolder(path / "run", recipe="demo", resolved=RESOLVED, command=["llmstack", "train", "demo"], **options)


def open_stage(run, name="base", *, beta=0.1, fresh=False):
    return run.open_stage(name, kind="pretrain", identity=StageIdentity({"beta": beta}, {}, {}), fresh=fresh)


def complete(run, name, **options):
    stage = open_stage(run, name, **options)
    stage.write_final(lambda folder: (folder / "config.json").write_text("{}"))
    stage.finish(RESULT)
    return stage


def read(path, name):
    return json.loads((path / "run" / name).read_text())


def test_whole_run(tmp_path):
    with run_folder(tmp_path) as run:
        assert read(tmp_path, "summary.json")["status"] == "running"
        complete(run, "base")
        complete(run, "policy")
    summary = read(tmp_path, "summary.json")
    assert summary.keys() == {"recipe", "status", "wall_seconds", "stages"}
    assert (summary["recipe"], summary["status"], list(summary["stages"])) == ("demo", "done", ["base", "policy"])
    assert summary["stages"]["base"] == {
        "kind": "pretrain",
        "status": "done",
        "steps": 3,
        "tokens": 30,
        "wall_seconds": 1.5,
        "compile_seconds": 0.5,
        "tokens_per_second": 20.0,
        "graphs": 1,
        "metrics": {"train/loss_first": 4.0, "train/loss": 2.0},
        "final": "base/final",
    }
    about = read(tmp_path, "run.json")
    assert about["status"] == "done" and about["command"] == ["llmstack", "train", "demo"]
    assert about["versions"]["mindspore"] == "2.9.0" and about["host"]["pid"] == os.getpid() and about["ended"]
    assert len(about["stages"]["policy"]["fingerprint"]) == 64
    assert yaml.safe_load((tmp_path / "run" / "recipe.resolved.yaml").read_text()) == RESOLVED


def test_running_again_keeps_what_is_done_and_adds_up_the_time(tmp_path):
    with run_folder(tmp_path) as run:
        complete(run, "base")
        complete(run, "policy")
        time.sleep(0.05)
    first = read(tmp_path, "summary.json")
    with run_folder(tmp_path) as run:
        assert open_stage(run, "base").finished and open_stage(run, "policy").finished
    second = read(tmp_path, "summary.json")
    assert second["status"] == "done" and second["stages"] == first["stages"]
    assert second["wall_seconds"] >= first["wall_seconds"] >= 0.05
    (earlier,) = read(tmp_path, "run.json")["earlier_launches"]
    assert earlier["status"] == "done" and earlier["command"] == ["llmstack", "train", "demo"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Interrupted(signal.SIGTERM), "interrupted"),
        (KeyboardInterrupt(), "interrupted"),
        (RunHalted("kl"), "failed"),
        (ZeroDivisionError(), "failed"),
    ],
)
def test_how_a_run_ended(tmp_path, error, status):
    with pytest.raises(type(error)), run_folder(tmp_path) as run:
        complete(run, "base")
        open_stage(run, "policy")
        raise error
    summary = read(tmp_path, "summary.json")
    assert summary["status"] == read(tmp_path, "run.json")["status"] == status
    assert summary["stages"]["base"]["status"] == "done"
    assert summary["stages"]["policy"]["status"] == status
    assert summary["stages"]["policy"]["final"] is None


def test_run_that_left_stages_out_is_not_done(tmp_path):
    with run_folder(tmp_path) as run:
        complete(run, "base")
    assert read(tmp_path, "summary.json")["status"] == "interrupted"


def test_changed_stage_moves_aside_and_says_why(tmp_path, caplog):
    with caplog.at_level("INFO", "llmstack"), run_folder(tmp_path) as run:
        complete(run, "base")
        complete(run, "policy")
        assert open_stage(run, "base").finished
        assert not open_stage(run, "policy", beta=0.2).finished
    assert "policy runs again (config.beta: 0.1 -> 0.2); its earlier results are in policy.old-" in caplog.text
    (aside,) = (tmp_path / "run").glob("policy.old-*")
    assert (aside / "final" / "config.json").exists()
    assert [path.name for path in (tmp_path / "run" / "policy").iterdir()] == ["stage.json"]


def test_fresh_moves_aside_twice_in_a_second(tmp_path):
    with run_folder(tmp_path) as run:
        for _ in range(3):
            complete(run, "base", fresh=True)
    assert len(list((tmp_path / "run").glob("base.old-*"))) == 2


def test_two_runs_at_once_are_refused_with_the_pid(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from llmstack.engine.run_folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1]), recipe='demo', resolved={'stages': {}}):\n"
        "    print('in', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "run")], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"in\n"
        with pytest.raises(RunFolderError, match=f"no other run is in, got .*run, in use by process {process.pid} on"):
            run_folder(tmp_path).__enter__()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with run_folder(tmp_path):  # a killed run leaves no lock behind
        pass


def test_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(RunFolderError, match="run_dir: expected a folder that can be written, got .*run"):
        run_folder(tmp_path).__enter__()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_unwritable_folder_is_refused(tmp_path):
    (tmp_path / "run").mkdir(mode=0o500)
    with pytest.raises(RunFolderError, match="run_dir: expected a folder that can be written"):
        run_folder(tmp_path).__enter__()


def test_read_only_file_system_is_refused():
    with pytest.raises(RunFolderError, match="run_dir: expected a folder that can be written, got /proc/llmstack"):
        run_folder_at("/proc/llmstack").__enter__()


def run_folder_at(path):
    return RunFolder(path, recipe="demo", resolved=RESOLVED)
