from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from llmstack.rewards.sandbox import Bounds, Sandbox

MB = 1 << 20
BOUNDS = Bounds(wall_seconds=20.0, cpu_seconds=20, memory_bytes=512 * MB, file_bytes=MB)


def bounds(**changes):
    return Bounds(**(BOUNDS.__dict__ | changes))


def alive(marker):
    """Processes whose command line holds a text."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if marker.encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


def test_code_that_ends_and_code_that_fails():
    box = Sandbox(BOUNDS)
    assert box.run_python("x = 2", "assert x == 2").passed
    failed = box.run_python("x = 2", "assert x == 3")
    assert (failed.passed, failed.status, failed.out_of_time) == (False, 1, False)


@pytest.mark.parametrize("code", ["import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit", "'''", "\\"])
def test_code_that_ends_before_its_tests_has_not_passed(code):
    ended = Sandbox(BOUNDS).run_python(code, "assert False")
    assert not ended.passed and not ended.out_of_time


def test_a_program_reads_and_writes():
    ended = Sandbox(BOUNDS).run_program([sys.executable, "-c", "print(input()[::-1])"], "abc")
    assert (ended.status, ended.output, ended.out_of_time) == (0, "cba\n", False)
    assert Sandbox(BOUNDS).run_program(["/no/such/program"], "").status == 127


def test_a_hang_ends_with_its_children():
    marker = f"hang-{os.getpid()}-{time.time_ns()}"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', '{marker}'])\n"
        "time.sleep(60)"
    )
    started = time.perf_counter()
    ended = Sandbox(bounds(wall_seconds=1.0)).run_python(code)
    assert ended.out_of_time and ended.status == -signal.SIGKILL
    assert time.perf_counter() - started < 10
    time.sleep(0.1)
    assert alive(marker) == []


def test_children_left_behind_end_too():
    marker = f"left-{os.getpid()}-{time.time_ns()}"
    code = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', '{marker}'])"
    )
    assert Sandbox(BOUNDS).run_python(code).passed
    deadline = time.monotonic() + 20  # the child would sleep 60
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(marker) == []


def test_a_busy_loop_runs_into_the_limit_of_the_processor():
    ended = Sandbox(bounds(cpu_seconds=1)).run_python("while True: pass")
    assert ended.out_of_time and ended.status in (-signal.SIGXCPU, -signal.SIGKILL)


def test_too_much_memory():
    ended = Sandbox(BOUNDS).run_python("x = bytearray(2 ** 30)")
    assert (ended.passed, ended.status, ended.out_of_time) == (False, 2, False)


def test_endless_output_ends():
    ended = Sandbox(BOUNDS).run_python("while True: print('x' * 1000, flush=True)")
    assert not ended.passed and not ended.out_of_time
    assert 0 < len(ended.output) <= MB


def test_a_segmentation_fault_is_a_signal():
    ended = Sandbox(BOUNDS).run_python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert ended.status == -signal.SIGSEGV and not ended.out_of_time


def test_no_secret_and_no_file_is_shared(monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "sk-0123456789")
    code = "import os; print(sorted(os.environ), os.listdir(), os.getcwd() == os.environ['HOME'])"
    output = Sandbox(BOUNDS).run_python(code).output
    assert "SECRET_KEY" not in output and "PATH" in output
    assert output.rstrip().endswith("['code_0.py'] True")


def test_a_stopped_sandbox_ends_what_runs_and_begins_nothing():
    box = Sandbox(BOUNDS)
    threading.Timer(0.5, box.stop).start()
    started = time.perf_counter()
    assert box.run_python("import time; time.sleep(60)").status == -signal.SIGKILL
    assert time.perf_counter() - started < 10
    with pytest.raises(RuntimeError, match="stopped"):
        box.run_python("")
