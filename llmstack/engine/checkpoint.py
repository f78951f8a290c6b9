"""Checkpoints that survive a kill at any moment.

``checkpoints/step_00000100/`` holds ``model.safetensors``, ``optimizer.safetensors``, ``trainer.json`` and
``manifest.json`` (a sha256 of each). The folder is written beside its place, synced, renamed, and only then marked by a
file ``COMPLETE``, which holds the manifest's own sha256. A folder without a fitting mark and fitting hashes is never
loaded.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from llmstack.engine.atomic import fsync_path, recover_folders, write_folder, write_json
from llmstack.engine.protocol import StageState
from llmstack.errors import RunFolderError
from llmstack.runtime.logging import get_logger

MODEL, OPTIMIZER, TRAINER = "model.safetensors", "optimizer.safetensors", "trainer.json"
MANIFEST, MARK = "manifest.json", "COMPLETE"
_PREFIX = "step_"


@dataclass(frozen=True)
class Restored:
    """A checkpoint read back.

    Attributes:
        step: the step it was taken after.
        state: its content.
    """

    step: int
    state: StageState


def save_checkpoint(folder: Path, step: int, state: StageState) -> Path:
    """Writes one checkpoint.

    Args:
        folder: the stage's ``checkpoints`` folder; made when missing.
        step: the step just finished.
        state: what to keep.

    Returns:
        The checkpoint's own folder.

    Raises:
        RunFolderError: the disk is full or refuses.
    """
    target = folder / f"{_PREFIX}{step:08d}"

    def fill(into: Path) -> None:
        _save_arrays(into / MODEL, state.params)
        _save_arrays(into / OPTIMIZER, state.optimizer)
        (into / TRAINER).write_text(json.dumps(state.trainer, allow_nan=False), encoding="utf-8")
        files = {name: sha256_of(into / name) for name in (MODEL, OPTIMIZER, TRAINER)}
        write_json(into / MANIFEST, {"format": 1, "step": step, "sha256": files})

    try:
        write_folder(target, fill)
        mark = target / MARK
        mark.write_text(sha256_of(target / MANIFEST), encoding="ascii")
        fsync_path(mark)
        fsync_path(target)
    except (OSError, SafetensorError) as error:
        raise RunFolderError(
            f"{target}: expected room for a checkpoint, got {error}. "
            "Free some space and start the same command again: it goes on from the checkpoint before."
        ) from error
    return target


def load_newest(folder: Path) -> Restored | None:
    """Reads the newest checkpoint that is whole, saying in the log why a newer one was passed over.

    Args:
        folder: the stage's ``checkpoints`` folder; may be missing.

    Returns:
        The checkpoint, or None when there is none to go on from.
    """
    log = get_logger("engine")
    recover_folders(folder)
    for candidate in _newest_first(folder):
        fault = find_fault(candidate)
        if fault:
            log.warning("checkpoint %s passed over: %s", candidate, fault)
            _set_aside(candidate)
            continue
        trainer = json.loads((candidate / TRAINER).read_text(encoding="utf-8"))
        state = StageState(load_file(candidate / MODEL), load_file(candidate / OPTIMIZER), trainer)
        return Restored(_step_of(candidate), state)
    return None


def retain(folder: Path, keep: int) -> None:
    """Deletes old checkpoints, never the newest one that is whole.

    Args:
        folder: the stage's ``checkpoints`` folder.
        keep: how many of the newest whole checkpoints stay, at least 1.
    """
    candidates = _newest_first(folder)
    whole = 0
    for candidate in candidates:
        # hashes are checked until the first good one is found: what is older than that is not needed to be sure
        fault = find_fault(candidate) if whole == 0 else _unmarked(candidate)
        whole += not fault
        if whole > max(keep, 1) or (fault and whole):
            shutil.rmtree(candidate)


def find_fault(checkpoint: Path) -> str:
    """Tells what is wrong with a checkpoint.

    Args:
        checkpoint: a ``step_...`` folder.

    Returns:
        The reason not to load it, in words; empty when it is whole.
    """
    fault = _unmarked(checkpoint)
    if fault:
        return fault
    try:
        if sha256_of(checkpoint / MANIFEST) != (checkpoint / MARK).read_text(encoding="ascii"):
            return f"{MANIFEST} has changed since it was written"
        hashes = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))["sha256"]
        changed = [name for name, digest in hashes.items() if sha256_of(checkpoint / name) != digest]
    except (OSError, ValueError) as error:
        return f"it cannot be read ({error})"
    return f"{', '.join(changed)} has changed since it was written" if changed else ""


def sha256_of(path: Path) -> str:
    """Hashes a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _set_aside(checkpoint: Path) -> None:
    """Renames a damaged checkpoint, so that retention never counts it as one to fall back on."""
    if not _unmarked(checkpoint):
        aside = checkpoint.with_name(f"damaged_{checkpoint.name}")
        shutil.rmtree(aside, ignore_errors=True)
        checkpoint.rename(aside)


def _unmarked(checkpoint: Path) -> str:
    return "" if (checkpoint / MARK).is_file() else "it was not finished"


def _save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    # safetensors writes the memory as it lies, so a transposed or sliced view must be copied first
    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)


def _newest_first(folder: Path) -> list[Path]:
    found = (path for path in folder.glob(f"{_PREFIX}*") if path.name[len(_PREFIX) :].isdigit())
    return sorted(found, key=_step_of, reverse=True)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name[len(_PREFIX) :])
