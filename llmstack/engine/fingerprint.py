"""What a stage's result depends on, hashed: unchanged means the finished result can be kept."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llmstack
from llmstack.engine.checkpoint import sha256_of

NUMERICS_VERSION = 4
"""Raised by one whenever a change of llmstack makes the same recipe give other numbers, so that stages run again."""

OBSERVING_KEYS = frozenset(
    {"log_every", "eval_every", "save_every", "keep_checkpoints", "max_skipped_steps", "log_rows"}
)
"""Keys of a stage that change what is seen of a run, not what it computes."""


@dataclass(frozen=True)
class StageIdentity:
    """Everything a stage's result depends on.

    Attributes:
        config: the stage's resolved config with the recipe's seed, model and tokenizer, plain JSON.
        inputs: fingerprint of every stage, model folder or data file the stage reads, by name.
        code: version of the code that matters, by name (see :func:`code_version`).
    """

    config: Mapping[str, Any]
    inputs: Mapping[str, str]
    code: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Gives the parts that count as plain JSON, without :data:`OBSERVING_KEYS`."""
        return {"config": _without_observing(self.config), "inputs": dict(self.inputs), "code": dict(self.code)}

    def fingerprint(self) -> str:
        """Hashes all of it: sha256 hex of the sorted JSON."""
        return hash_json(self.to_json())


def hash_json(value: Any) -> str:
    """Hashes a JSON value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Lists where two JSON values differ.

    Args:
        before: the older value.
        after: the newer one.
        path: dotted path of both, for the messages.

    Returns:
        Lines such as ``config.kl.beta: 0.05 -> 0.1``, sorted by path.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        lines = []
        for key in sorted(before.keys() | after.keys()):
            inner = f"{path}.{key}" if path else str(key)
            lines += differences(before.get(key), after.get(key), inner)
        return lines
    return [] if before == after else [f"{path}: {_short(before)} -> {_short(after)}"]


def hash_files(path: Path) -> str:
    """Hashes a file, or every file below a folder with its name.

    Args:
        path: an existing file or folder.

    Returns:
        sha256 hex.
    """
    if path.is_file():
        return sha256_of(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return hash_json({str(file.relative_to(path)): sha256_of(file) for file in files})


def code_version(*parts: Any) -> dict[str, str]:
    """Gives the version of the code that a stage's numbers depend on.

    llmstack itself counts with :data:`NUMERICS_VERSION`, so that an edit that changes no number repeats no training. A
    plugin's class or function counts with its whole source file, because nobody keeps such a number for it.

    Args:
        parts: classes and functions the stage uses: its own class, rewards, sources.

    Returns:
        ``llmstack`` and, for each part defined elsewhere, its module with a hash.
    """
    package = Path(llmstack.__file__).resolve().parent
    versions = {"llmstack": str(NUMERICS_VERSION)}
    for part in parts:
        try:
            source = Path(inspect.getfile(part)).resolve()
        except TypeError:  # a builtin or an instance: it has no file of its own
            continue
        if package not in source.parents:
            versions[part.__module__] = sha256_of(source)
    return versions


def _without_observing(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in OBSERVING_KEYS}


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."
