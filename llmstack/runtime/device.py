"""Prepares MindSpore: graph mode, target, threads, quiet logs, no files in the working directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

from llmstack.errors import UserError
from llmstack.runtime import compile_count

_CALL_DEPTH = 10_000

DeviceName = Literal["cpu", "ascend"]


class _Process:
    """What this process was set up with; MindSpore allows most of it once only."""

    done: tuple[str, int] | None = None


def available_threads() -> int:
    """Counts the cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_python_protobuf() -> None:
    """Chooses protobuf's Python implementation, as MindSpore does when it is imported.

    Whoever imports protobuf first decides for the process, and MindSpore cannot be imported after the C one is in.
    """
    os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")


def quiet_environment(dump_dir: Path | None = None) -> None:
    """Sets what MindSpore reads from the environment; works before and after it is imported.

    Warnings of its C++ side are hidden unless the user has set ``GLOG_v``. A failed compile leaves its dump under
    ``dump_dir`` instead of ``./rank_0``.

    Args:
        dump_dir: where dumps go; None: a folder of this user under the system's temporary folder.
    """
    os.environ.setdefault("GLOG_v", "3")
    # idle OpenMP threads would spin against MindSpore's own; read once, when the first library with OpenMP is loaded
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    folder = dump_dir or Path(tempfile.gettempdir()) / f"llmstack-{os.getuid()}"
    os.environ["MS_OM_PATH"] = str(folder.absolute())
    use_python_protobuf()


def setup(device: DeviceName = "cpu", threads: int | None = None, *, dump_dir: Path | None = None) -> None:
    """Makes this process ready to compile and run graphs. A repetition with the same arguments does nothing.

    Args:
        device: where graphs run.
        threads: CPU threads of the kernels; None uses every core this process may run on.
        dump_dir: where a failed compile leaves its dump.

    Raises:
        UserError: the device cannot be used here, or the process was set up with other values before.
    """
    quiet_environment(dump_dir)
    wanted = (device, threads or available_threads())
    if _Process.done is not None:
        if _Process.done != wanted:
            raise UserError(
                f"parallel: expected one device and thread count a process, got {wanted} after {_Process.done}. "
                "Start a new process."
            )
        return
    import mindspore
    from mindspore.device_context.cpu.op_tuning import threads_num

    try:
        mindspore.set_device({"cpu": "CPU", "ascend": "Ascend"}[device])
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"parallel.device: expected a device this machine has, got {device} ({reason}). Write `cpu`."
        ) from error
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    # a deep model nests more calls while it is compiled than the 1000 allowed by default
    mindspore.set_recursion_limit(_CALL_DEPTH)
    threads_num(wanted[1])
    _use_cores(wanted[1])
    compile_count.install()
    _Process.done = wanted


def _use_cores(threads: int) -> None:
    """Keeps the process to as many cores as it may have threads.

    MindSpore's thread settings reach its own kernels but not its matmul library, which takes every core it can get.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    if threads < len(cores):
        # two runs of few threads should not meet on the same cores
        start = os.getpid() % len(cores)
        os.sched_setaffinity(0, (cores + cores)[start : start + threads])
