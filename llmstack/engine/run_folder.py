"""A run's folder: one run at a time, what it was made with, its summary, its stages."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import yaml
from typing_extensions import Self

from llmstack.engine.atomic import write_json, write_text
from llmstack.engine.environment import git_commit, host_description, package_versions
from llmstack.engine.fingerprint import StageIdentity
from llmstack.engine.stage_folder import StageFolder, outdated, read_notes
from llmstack.errors import Interrupted, RunFolderError
from llmstack.runtime.logging import get_logger

RUN_FILE, SUMMARY_FILE, RECIPE_FILE, LOCK_FILE = "run.json", "summary.json", "recipe.resolved.yaml", ".lock"


class RunFolder:
    """A run's folder while a run is in it; use it in a ``with`` statement.

    Entering makes and locks the folder and writes ``run.json`` and ``recipe.resolved.yaml``; leaving notes how the run
    ended and gives the lock back. The system gives it back too when the process is killed.

    Args:
        path: the folder; made when missing.
        recipe: the recipe's name.
        resolved: the whole resolved recipe, plain JSON.
        command: the command line; None takes this process's.
    """

    def __init__(
        self, path: Path, *, recipe: str, resolved: Mapping[str, Any], command: Sequence[str] | None = None
    ) -> None:
        self.path, self.recipe, self.resolved = Path(path), recipe, resolved
        self._command = list(command if command is not None else sys.argv)
        self._lock: IO[str] | None = None
        self._open: dict[str, StageFolder] = {}
        self._status = "running"
        self._started = time.time()
        self._wall_before = 0.0
        self._made_with: dict[str, Any] = {}
        self._earlier: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self._lock = _lock(self.path)
        before = _read(self.path / RUN_FILE)
        self._wall_before = float(_read(self.path / SUMMARY_FILE).get("wall_seconds") or 0.0)
        self._earlier = before.get("earlier_launches", [])
        if before:
            self._earlier.append({key: before.get(key) for key in ("command", "started", "ended", "status", "git")})
        self._started = time.time()
        self._made_with = {"versions": package_versions(), "host": host_description(), "git": git_commit()}
        text = yaml.safe_dump(dict(self.resolved), sort_keys=False, allow_unicode=True)
        write_text(self.path / RECIPE_FILE, text)
        self._write()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        stopped = isinstance(error, (Interrupted, KeyboardInterrupt))
        status = "interrupted" if stopped else "failed"
        for stage in self._open.values():
            if not stage.finished:
                stage.note(None, status)  # type: ignore[arg-type]
        complete = all(read_notes(self.path / name).get("status") == "done" for name in self.resolved["stages"])
        self._status = status if error is not None else "done" if complete else "interrupted"
        self._write()
        if self._lock is not None:
            self._lock.close()

    def open_stage(self, name: str, *, kind: str, identity: StageIdentity, fresh: bool = False) -> StageFolder:
        """Gives a stage's folder, empty unless what lies in it fits.

        Files that were made with another config, other inputs or other code move to ``<stage>.old-<time>``.

        Args:
            name: the stage's name.
            kind: the stage's kind.
            identity: what its result depends on now.
            fresh: move fitting files aside too.

        Returns:
            The folder; ``finished`` tells whether there is nothing left to do.
        """
        path = self.path / name
        log = get_logger("engine")
        reasons = outdated(path, identity)
        if reasons or (fresh and path.exists()):
            aside = self._aside(name)
            path.rename(aside)
            why = "; ".join(reasons[:5]) or "starting over was asked for"
            log.info("%s runs again (%s); its earlier results are in %s", name, why, aside.name)
        stage = StageFolder(path, name, kind=kind, identity=identity, on_change=self._write)
        self._open[name] = stage
        if not stage.finished:
            stage.note(None, "running")
        return stage

    def summary(self) -> dict[str, Any]:
        """Gives what ``summary.json`` holds, from the stages' own notes, in the recipe's order."""
        stages = {}
        for name in self.resolved["stages"]:
            notes = read_notes(self.path / name)
            if not notes:
                continue
            numbers = notes.get("result") or {}
            has_final = (self.path / name / "final").is_dir()
            stages[name] = {
                "kind": notes["kind"],
                "status": notes["status"],
                "steps": numbers.get("steps", 0),
                "tokens": numbers.get("tokens", 0),
                "wall_seconds": numbers.get("wall_seconds", 0.0),
                "compile_seconds": numbers.get("compile_seconds", 0.0),
                "tokens_per_second": numbers.get("tokens_per_second", 0.0),
                "graphs": numbers.get("graphs", 0),
                "metrics": numbers.get("metrics", {}),
                "final": f"{name}/final" if has_final else None,
            }
        wall = round(self._wall_before + time.time() - self._started, 3)
        return {"recipe": self.recipe, "status": self._status, "wall_seconds": wall, "stages": stages}

    def _write(self) -> None:
        notes = {name: read_notes(self.path / name) for name in self.resolved["stages"]}
        run = {
            "recipe": self.recipe,
            "status": self._status,
            "command": self._command,
            "started": _iso(self._started),
            "ended": None if self._status == "running" else _iso(time.time()),
            "working_directory": os.getcwd(),
            **self._made_with,
            "stages": {n: {"status": s["status"], "fingerprint": s["fingerprint"]} for n, s in notes.items() if s},
            "earlier_launches": self._earlier,
        }
        write_json(self.path / RUN_FILE, run)
        write_json(self.path / SUMMARY_FILE, self.summary())

    def _aside(self, name: str) -> Path:
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        number = 1
        while (aside := self.path / f"{name}.old-{stamp}{f'-{number}' if number > 1 else ''}").exists():
            number += 1
        return aside


def _lock(path: Path) -> IO[str]:
    """Makes a folder and takes its lock, which lasts until the file is closed or the process ends."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = (path / LOCK_FILE).open("a+", encoding="utf-8")
    except OSError as error:
        raise RunFolderError(
            f"run_dir: expected a folder that can be written, got {path} ({error.strerror}). Choose another run_dir."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        if not isinstance(error, BlockingIOError):
            raise RunFolderError(
                f"run_dir: expected a folder whose file system has locks, got {path} ({error.strerror}). "
                "Choose a run_dir on another disk."
            ) from error
        raise RunFolderError(
            f"run_dir: expected a folder no other run is in, got {path}, in use by process {holder}. "
            "Wait for it, stop it, or choose another run_dir."
        ) from None
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()} on {platform.node()}")
    file.flush()
    return file


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
