"""Programs run for an answer: in a process group and a folder of their own, under limits, ended with their children.

What this keeps out is accidents: endless loops, endless output, memory, files left behind, secrets in environment
variables. It is no jail: the program runs as the same user, can read what that user can read and reach the network.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llmstack.rewards import child

SHOWN_BYTES = 1 << 20
"""So much of a program's output, its beginning, is read."""
_FIRST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.001, 0.02
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Bounds:
    """What a program may use.

    Attributes:
        wall_seconds: by the clock, children included.
        cpu_seconds: of a processor, for one process.
        memory_bytes: address space of one process.
        file_bytes: of a file it writes, its output included.
    """

    wall_seconds: float
    cpu_seconds: int
    memory_bytes: int
    file_bytes: int


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        status: its exit status; negative: the signal that ended it.
        out_of_time: it ran into the limit of the clock or of the processor.
        output: what it wrote to its standard output.
        passed: Python code ran to its last line.
    """

    status: int
    out_of_time: bool
    output: str
    passed: bool


class Sandbox:
    """Runs programs; threads may share it.

    Args:
        bounds: of each program.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._running: set[int] = set()
        self._lock, self._stopped = threading.Lock(), False

    def run_python(self, *sources: str) -> Ended:
        """Run Python code in an interpreter of its own that has this one's packages.

        Args:
            sources: pieces of code that run one after the other in one namespace.
        """
        word = secrets.token_hex(16)
        with _folder() as folder, tempfile.TemporaryFile() as passed:
            names = [f"code_{number}.py" for number in range(len(sources))]
            for name, source in zip(names, sources, strict=True):
                (folder / name).write_text(source, encoding="utf-8", errors="replace")
            what = ["python", str(passed.fileno()), *names]
            ended = self._run(what, f"{word}\n", folder, pass_fds=(passed.fileno(),))
            return Ended(ended.status, ended.out_of_time, ended.output, _content(passed) == word)

    def run_program(self, command: Sequence[str], text: str) -> Ended:
        """Run a program.

        Args:
            command: program and arguments.
            text: what it finds on its standard input.
        """
        with _folder() as folder:
            return self._run(["exec", *command], text, folder)

    def stop(self) -> None:
        """Ends all programs that run, and lets none begin."""
        with self._lock:
            self._stopped = True
            for group in self._running:
                _kill(group)

    def _run(self, what: Sequence[str], text: str, folder: Path, *, pass_fds: tuple[int, ...] = ()) -> Ended:
        bounds = self._bounds
        numbers = (bounds.wall_seconds, bounds.cpu_seconds, bounds.memory_bytes, bounds.file_bytes)
        with tempfile.TemporaryFile() as entry, tempfile.TemporaryFile() as output:
            entry.write(text.encode("utf-8", "replace"))
            entry.seek(0)
            with self._lock:
                if self._stopped:
                    raise RuntimeError("the sandbox is stopped")
                process = subprocess.Popen(
                    [sys.executable, "-I", child.__file__, *map(str, numbers), *what],
                    stdin=entry,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    pass_fds=pass_fds,
                    cwd=folder,
                    env=_environment(folder),
                    start_new_session=True,
                )
                self._running.add(process.pid)
            try:
                late = not _ends_within(process.pid, bounds.wall_seconds)
            finally:
                with self._lock:
                    # before it is waited for: until then nobody else can have the number of its group
                    _kill(process.pid)
                    self._running.discard(process.pid)
                status = process.wait()
            late = late or -status in (signal.SIGXCPU, signal.SIGALRM)
            return Ended(status, late, _content(output), passed=False)


def _ends_within(pid: int, seconds: float) -> bool:
    """Waits for a process and leaves it to be waited for."""
    deadline, pause = time.monotonic() + seconds, _FIRST_LOOK_SECONDS
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)
    return True


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def _folder():  # noqa: ANN202 - an iterator of Path
    with tempfile.TemporaryDirectory(prefix="llmstack-verify-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(SHOWN_BYTES).decode("utf-8", "replace")


def _environment(folder: Path) -> dict[str, str]:
    """Nothing of ours but where programs are: keys and tokens stay out."""
    own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"}
    return own | _ONE_THREAD
