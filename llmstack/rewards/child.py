"""The first thing that runs in a verifier's process: puts limits on itself, then becomes or runs what is checked.

Started as a script by its path, with Python's isolated mode, so it knows the standard library alone and nothing of
llmstack. Arguments: wall seconds, CPU seconds, memory in bytes, file size in bytes, then ``exec PROGRAM ARGUMENT...``
or ``python DESCRIPTOR FILE...``.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

WRONG, NO_MEMORY, NO_PROGRAM = 1, 2, 127
"""Exit statuses: code that raised something; that ran out of memory; a program that cannot be started."""


def limit(wall_seconds: float, cpu_seconds: int, memory_bytes: int, file_bytes: int) -> None:
    """Put limits on this process; they go with it through ``exec`` and into its children.

    Args:
        wall_seconds: after a second more than these an alarm ends the process, should nobody else do.
        cpu_seconds: of a processor.
        memory_bytes: of address space.
        file_bytes: of any file it writes.
    """
    # a process group of its own was made by whoever started this
    signal.alarm(int(wall_seconds) + 2)
    for kind, value in (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        # at the soft limit of CPU time comes a signal that says so, at the hard one only the end
        above = value + 1 if kind == resource.RLIMIT_CPU else value
        value, above = (n if hard == resource.RLIM_INFINITY else min(n, hard) for n in (value, above))
        resource.setrlimit(kind, (value, above))


def run_python(descriptor: int, paths: list[str]) -> int:
    """Run an answer's code, then its tests, in one namespace.

    The word on the first line of the input is written to a file when the last line has run. Code that ends the process
    before its tests have run has exit status 0 and no word.

    Args:
        descriptor: of that file.
        paths: Python files, in order.

    Returns:
        0 when all ran to their ends, :data:`WRONG` when one raised something.
    """
    word = sys.stdin.readline().strip()
    space = {"__name__": "__main__"}
    try:
        for path in paths:
            with open(path, encoding="utf-8") as file:
                code = compile(file.read(), path, "exec")
            exec(code, space)  # noqa: S102 - this is what it is for
    except MemoryError:
        return NO_MEMORY
    except BaseException as error:  # noqa: BLE001 - whatever the answer's code raises makes it wrong
        sys.stderr.write(f"{type(error).__name__}: {error}"[:1000])
        return WRONG
    os.write(descriptor, word.encode())
    return 0


def main(arguments: list[str]) -> int:
    """Read the arguments, put limits on the process and go on.

    Args:
        arguments: as above.

    Returns:
        An exit status, unless the process has become another program.
    """
    wall, cpu, memory, files, mode, *rest = arguments
    limit(float(wall), int(cpu), int(memory), int(files))
    if mode == "python":
        return run_python(int(rest[0]), rest[1:])
    try:
        os.execvp(rest[0], rest)
    except OSError:
        return NO_PROGRAM


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads and exit handlers of the answer's code have nothing to say any more
