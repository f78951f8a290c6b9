from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from llmstack.data.workers import Workers
from llmstack.errors import LlmstackError


def times(factor, number):
    return number * factor, os.getpid()


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(number):
    raise ValueError(f"not {number}")


def test_results_come_in_order_from_other_processes_for_several_functions(tmp_path):
    with Workers(2, tmp_path) as workers:
        first = list(workers.map(partial(times, 2), range(30)))
        second = list(workers.map(partial(times, 3), range(30)))
    assert [value for value, _ in first] == [2 * number for number in range(30)]
    assert [value for value, _ in second] == [3 * number for number in range(30)]
    processes = {process for _, process in first + second}
    assert os.getpid() not in processes
    assert len(processes) <= 2


@pytest.mark.parametrize(("count", "items"), [(1, 5), (4, 1), (4, 0)])
def test_little_work_is_done_here(tmp_path, count, items):
    with Workers(count, tmp_path) as workers:
        found = list(workers.map(partial(times, 2), range(items)))
    assert found == [(2 * number, os.getpid()) for number in range(items)]
    assert list(tmp_path.iterdir()) == []


def test_items_are_taken_as_results_are(tmp_path):
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    with Workers(2, tmp_path) as workers:
        results = workers.map(partial(times, 2), items())
        next(results)
        assert len(taken) <= 8


def test_an_error_in_a_process_is_raised_here(tmp_path):
    with Workers(2, tmp_path) as workers, pytest.raises(ValueError, match="not 0"):
        list(workers.map(refuse, range(5)))


def test_a_process_that_is_ended_is_an_error_and_no_endless_wait(tmp_path):
    with Workers(2, tmp_path) as workers, pytest.raises(LlmstackError, match="ended from outside. When memory ran out"):
        list(workers.map(die, range(5)))


def started(tmp_path, *body):
    """A process of its own group that runs some lines with ``workers`` of two processes."""
    script = tmp_path / "parent.py"
    lines = (
        "import os, signal, time",
        "from functools import partial",
        "from pathlib import Path",
        "from llmstack.data.workers import Workers",
        "from tests.unit.data.test_workers import times",
        "if __name__ == '__main__':",
        f"    with Workers(2, Path({str(tmp_path)!r})) as workers:",
        *(f"        {line}" for line in body),
    )
    script.write_text("\n".join(lines))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, script], env=environment, start_new_session=True, **pipes)


def test_an_interrupt_of_all_processes_is_the_main_one_s_to_decide_about(tmp_path):
    with started(
        tmp_path,
        "signal.signal(signal.SIGINT, lambda *_: None)",
        "results = workers.map(partial(times, 2), range(200))",
        "next(results)",
        "os.killpg(0, signal.SIGINT)",
        "print(sum(value for value, _ in results))",
    ) as parent:
        assert parent.communicate(timeout=60) == (f"{sum(range(0, 400, 2))}\n", "")


def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    with started(
        tmp_path,
        "print(*{process for _, process in workers.map(partial(times, 2), range(20))}, flush=True)",
        "time.sleep(100)",
    ) as parent:
        children = [int(process) for process in parent.stdout.readline().split()]
        assert children
        parent.kill()
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{child}") for child in children):
        assert time.monotonic() < deadline, "a process outlived its parent"
        time.sleep(0.05)
