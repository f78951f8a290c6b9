"""Folders that are expensive to make, made once: whole or not there, whoever builds them and however a builder ends."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from llmstack.config.paths import data_cache_folder
from llmstack.data.hashing import file_sha256
from llmstack.errors import DataError

MANIFEST = "manifest.json"
_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_log = logging.getLogger("llmstack.data")


def cached_folder(group: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder of a key, built when it is not there yet.

    Two processes that want the same folder do not both build it: the second waits. The lock ends with its process, so a
    builder that was killed leaves nothing but a folder that the next one empties. A folder whose files are no longer
    what was written is built again.

    Args:
        group: kind of thing, the name of a folder in the cache.
        key: hash of everything the content depends on.
        build: fills the empty folder it is given.

    Returns:
        The complete folder; its files must not be changed.

    Raises:
        DataError: the cache cannot be written. What ``build`` raises for other reasons comes out as it is.
    """
    root = data_cache_folder() / group
    folder = root / key
    if _is_whole(folder):
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / f".{key}.lock"):
            if not _is_whole(folder, quiet=True):
                _build(folder, build)
    except _BuildError as error:
        raise error.reason from None
    except OSError as error:
        raise DataError(
            f"{root}: expected a folder to keep prepared data in, got {error.strerror or error}. Make room there, or "
            "set LLMSTACK_DATA_CACHE to a folder that can be written."
        ) from error
    return folder


class _BuildError(Exception):
    """Carries what a builder stumbled over, which is no fault of the cache."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason)
        self.reason = reason


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _log.info("another process is preparing %s; waiting for it", path.name.split(".")[1][:12])
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    beside = folder.with_name(f".{folder.name}.building")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        build(beside)
        _write_manifest(beside)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        # a source may read from disks and networks of its own
        if isinstance(error, OSError) and error.errno not in _OF_THE_DISK:
            raise _BuildError(error) from error
        raise
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(beside, folder)
    _sync(folder.parent)


def _write_manifest(folder: Path) -> None:
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        _sync(path)
        stat = path.stat()
        files[path.relative_to(folder).as_posix()] = {
            "bytes": stat.st_size,
            "changed_ns": stat.st_mtime_ns,
            "sha256": file_sha256(path),
        }
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps(files, indent=1), encoding="utf-8")
    _sync(manifest)
    _sync(folder)


def _sync(path: Path) -> None:
    """Waits until a file's content, or a folder's list of entries, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_whole(folder: Path, *, quiet: bool = False) -> bool:
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return False
    problem = _problem(folder, manifest)
    if problem is not None and not quiet:
        _log.warning("%s; preparing it again", problem)
    return problem is None


def _problem(folder: Path, manifest: Path) -> str | None:
    """What is wrong with a folder. The content is read only when a file's time of change tells of another writer."""
    try:
        files = json.loads(manifest.read_text(encoding="utf-8"))
        for name, expected in files.items():
            path = folder / name
            stat = path.stat()
            if stat.st_size != expected["bytes"]:
                return f"{path}: expected {expected['bytes']} bytes, got {stat.st_size}: it was cut off or edited"
            if stat.st_mtime_ns != expected["changed_ns"] and file_sha256(path) != expected["sha256"]:
                return f"{path}: expected the content that was prepared, got another: it was edited"
    except FileNotFoundError as error:
        return f"{error.filename}: expected a file, got none: it was deleted"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{manifest}: expected a list of files, got something else: it was edited"
    return None
