from __future__ import annotations

import os
import subprocess
import sys

from llmstack.rewards import child


def run(*arguments, text=""):
    command = [sys.executable, "-I", child.__file__, "5", "5", str(1 << 29), str(1 << 20), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


SHOW = """
import resource
print([resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0] for name in ("CPU", "AS", "FSIZE", "CORE")])
"""


def test_limits_go_with_the_process():
    assert run("exec", sys.executable, "-c", SHOW).stdout.strip() == str([5, 1 << 29, 1 << 20, 0])


def test_a_lower_hard_limit_stays():
    command = [sys.executable, "-I", child.__file__, "5", "5", str(1 << 29), str(1 << 20), "exec", sys.executable, "-c"]
    lowered = (
        "import os, resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
        f"os.execv({command[0]!r}, {[*command, SHOW]!r})"
    )
    done = subprocess.run([sys.executable, "-c", lowered], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str([5, 1 << 29, 1000, 0])


def test_the_word_is_written_when_the_last_line_has_run(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("x = 1\n", encoding="utf-8")
    bad.write_text("assert x == 2\n", encoding="utf-8")
    for files, word, status in (([good, good], "w", 0), ([good, bad], "", child.WRONG)):
        reading, writing = os.pipe()
        command = [sys.executable, "-I", child.__file__, "5", "5", str(1 << 29), "1000", "python", str(writing)]
        done = subprocess.run([*command, *map(str, files)], input="w\n", text=True, pass_fds=(writing,), timeout=60)
        os.close(writing)
        assert (os.read(reading, 10).decode(), done.returncode) == (word, status)
        os.close(reading)


def test_a_program_that_is_not_there():
    assert run("exec", "/no/such/program").returncode == child.NO_PROGRAM
