"""The command that starts a run on a layout."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from llmstack.config.hardware import HardwareConfig
from llmstack.config.parallel import ParallelConfig
from llmstack.parallel.plan.layouts import overrides

_PORT = 8118
_PATIENCE = 600
"""Seconds that hosts wait for each other: they need not be started at one moment."""


def launch_command(
    recipe: Sequence[str], parallel: ParallelConfig, base: ParallelConfig, hardware: HardwareConfig | None, run_dir: str
) -> str:
    """What starts the run: on one device the command itself, on several msrun on every host.

    Args:
        recipe: the recipe and its ``key=value`` arguments, as typed.
        parallel: the layout.
        base: the recipe's own.
        hardware: says how many devices a host has; None: one host has all.
        run_dir: the run's folder.
    """
    arguments = [*map(shlex.quote, recipe), *overrides(parallel, base)]
    devices = parallel.num_devices
    if devices == 1:
        return " ".join(["llmstack", "train", *arguments])
    here = min(devices, hardware.host_devices) if hardware else devices
    words = ["msrun", f"--worker_num={devices}", f"--local_worker_num={here}"]
    if here < devices:
        words += ["--master_addr=$HOST_0", "--node_rank=$NODE_RANK"]
    words += [f"--master_port={_PORT}", f"--log_dir={shlex.quote(f'{run_dir}/msrun')}", "--join=True"]
    words += [f"--cluster_time_out={_PATIENCE}", '"$(command -v llmstack-worker)"']
    return " ".join([*words, *arguments])
