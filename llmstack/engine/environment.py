"""What a run was made with, for ``run.json``."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import llmstack

_PACKAGES = ("llmstack", "mindspore", "mindformers", "numpy", "tokenizers", "transformers", "safetensors")


def package_versions() -> dict[str, str | None]:
    """Gives the version of Python and of every package the numbers depend on; None where one is not installed."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def host_description() -> dict[str, Any]:
    """Gives the machine's name, system, processor and cores."""
    return {
        "name": platform.node(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "pid": os.getpid(),
    }


def git_commit(folder: Path | None = None) -> dict[str, Any] | None:
    """Gives the commit of the checkout llmstack runs from.

    Args:
        folder: a folder inside the checkout; None: llmstack's own.

    Returns:
        ``commit`` and whether files have ``changes``; None when it is no checkout or git is missing.
    """
    where = folder or Path(llmstack.__file__).resolve().parent
    commit = _git(where, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "changes": bool(_git(where, "status", "--porcelain", "--untracked-files=no"))}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
