"""Setting a process up: once, quietly, and without files in the working directory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from llmstack.errors import UserError
from llmstack.runtime import device

FAILING_CELL = """
import sys
from pathlib import Path
from llmstack.runtime.device import setup
setup("cpu", 2, dump_dir=Path(sys.argv[1]))
import mindspore
from mindspore import Tensor, nn
assert mindspore.get_context("mode") == mindspore.GRAPH_MODE
class Broken(nn.Cell):
    def construct(self, x):
        return x.no_such_method()
try:
    Broken()(Tensor([1.0]))
except AttributeError:
    sys.exit(7)
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failed")
    (folder / "work").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment.pop("GLOG_v", None)
    (folder / "cell.py").write_text(FAILING_CELL)
    command = [sys.executable, str(folder / "cell.py"), str(folder / "dump")]
    return folder, subprocess.run(command, cwd=folder / "work", env=environment, capture_output=True, text=True)


def test_failed_compile_leaves_its_dump_where_it_was_told(failed):
    folder, done = failed
    assert done.returncode == 7, done.stderr
    assert list((folder / "work").iterdir()) == []
    assert list((folder / "dump").rglob("analyze_fail.ir"))


def test_no_warnings_on_the_terminal(failed):
    assert "WARNING" not in failed[1].stderr + failed[1].stdout


def test_repeating_the_set_up_is_allowed_changing_it_is_not():
    device.setup("cpu")
    device.setup("cpu", device.available_threads())
    with pytest.raises(UserError, match="expected one device and thread count a process"):
        device.setup("cpu", device.available_threads() + 1)


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(device._Process, "done", None)
    with pytest.raises(UserError, match="parallel.device: expected a device this machine has, got ascend"):
        device.setup("ascend")


def test_fewer_threads_than_cores_keep_the_process_to_so_many_cores():
    code = (
        "import os; from llmstack.runtime.device import setup; setup('cpu', 1); setup('cpu');"
        "raise SystemExit(10 + len(os.sched_getaffinity(0)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 11


def test_log_level_of_the_user_is_kept(monkeypatch):
    monkeypatch.setenv("GLOG_v", "1")
    device.quiet_environment()
    assert os.environ["GLOG_v"] == "1"
