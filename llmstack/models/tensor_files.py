"""Safetensors files as float32 arrays: reading and writing, one file or several with an index.

The library's own numpy front end has no bfloat16, so stored bytes are turned into numbers here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open, serialize_file

from llmstack.errors import UserError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
STORED_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_READABLE = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}


def to_bfloat16_bits(array: np.ndarray) -> np.ndarray:
    """Round float32 to the nearest bfloat16, ties to even, and give its 16 bits.

    Args:
        array: float32 of any shape.

    Returns:
        uint16 of the same shape. A NaN stays a NaN.
    """
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)


def from_bfloat16_bits(bits: np.ndarray) -> np.ndarray:
    """Widen bfloat16 bits to float32, exactly.

    Args:
        bits: uint16 of any shape.

    Returns:
        float32 of the same shape.
    """
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a safetensors file, read only when asked for.

    Attributes:
        name: its name in the file.
        shape: its shape.
        dtype: the file's word for its dtype, e.g. ``BF16``.
        path: the file.
        offset: where its bytes begin in the file.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    path: Path
    offset: int

    def read(self) -> np.ndarray:
        """Its numbers as a new float32 array.

        Raises:
            UserError: the dtype is not a floating-point one.
        """
        if self.dtype not in _READABLE:
            raise UserError(
                f"{self.path}: expected {self.name} in {', '.join(_READABLE)}, got {self.dtype}. "
                "Export the model in floating point."
            )
        stored = np.fromfile(self.path, _READABLE[self.dtype], int(np.prod(self.shape)), offset=self.offset)
        numbers = from_bfloat16_bits(stored) if self.dtype == "BF16" else stored.astype(np.float32)
        return numbers.reshape(self.shape)


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of a model folder by name, from its one file or from all files its index names.

    Args:
        folder: a Hugging Face model folder.

    Raises:
        UserError: no weights there, an unreadable file, or an index that names a file or tensor that is not there.
    """
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if single.is_file():
        return {tensor.name: tensor for tensor in _tensors_of(single)}
    if not index.is_file():
        raise UserError(
            f"{folder}: expected a model folder with {SINGLE_FILE} or {INDEX_FILE}, got neither. "
            "Name a folder written by a finished stage or by `save_pretrained`."
        )
    weight_map = _weight_map(index)
    found = {t.name: t for file in sorted(set(weight_map.values())) for t in _tensors_of(folder / file)}
    lost = sorted(set(weight_map) - set(found))
    if lost:
        raise UserError(f"{index}: expected every tensor it lists in its files, got none for {lost}. Export it again.")
    return found


def tensors_of_file(path: Path) -> dict[str, StoredTensor]:
    """Every tensor of one safetensors file by name."""
    return {tensor.name: tensor for tensor in _tensors_of(path)}


def write_tensors(arrays: Iterable[tuple[str, np.ndarray]], folder: Path, *, dtype: str, max_shard_bytes: int) -> None:
    """Write ``model.safetensors``, or numbered shards with an index when the tensors pass a size.

    Weights that were in the folder go first: an old single file would be read before new shards.

    Args:
        arrays: (name, float32 array) pairs in the order they should be stored.
        folder: an existing folder.
        dtype: ``float32``, ``float16`` or ``bfloat16``.
        max_shard_bytes: bytes of tensors above which a new file begins; one larger tensor gets a file of its own.
    """
    for old in [*folder.glob("model*.safetensors"), folder / INDEX_FILE]:
        old.unlink(missing_ok=True)
    shards: list[dict[str, np.ndarray]] = [{}]
    sizes = [0]
    for name, array in arrays:
        size = array.size * STORED_BYTES[dtype]
        if shards[-1] and sizes[-1] + size > max_shard_bytes:
            shards.append({})
            sizes.append(0)
        shards[-1][name] = array
        sizes[-1] += size
    if len(shards) == 1:
        _write_file(shards[0], folder / SINGLE_FILE, dtype)
        return
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        file_name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _write_file(shard, folder / file_name, dtype)
        weight_map.update(dict.fromkeys(shard, file_name))
    text = json.dumps({"metadata": {"total_size": sum(sizes)}, "weight_map": weight_map}, indent=2, sort_keys=True)
    (folder / INDEX_FILE).write_text(text + "\n", encoding="utf-8")


def _weight_map(index: Path) -> Mapping[str, str]:
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{index}: expected JSON with a `weight_map`, got {error!r}. Export it again.") from error
    missing = sorted(file for file in set(weight_map.values()) if not (index.parent / file).is_file())
    if missing:
        raise UserError(f"{index}: expected the files it names, got none at {missing}. Copy the whole folder.")
    return weight_map


def _tensors_of(path: Path) -> Iterator[StoredTensor]:
    try:
        with safe_open(path, "numpy"):  # checks the header against the file's length
            pass
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: expected a safetensors file, got: {error}. Copy or export it again.") from error
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_bytes))
    for name, entry in header.items():
        if name != "__metadata__":
            yield StoredTensor(
                name, tuple(entry["shape"]), entry["dtype"], path, 8 + header_bytes + entry["data_offsets"][0]
            )


def _write_file(arrays: Mapping[str, np.ndarray], path: Path, dtype: str) -> None:
    entries: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        stored = to_bfloat16_bits(array) if dtype == "bfloat16" else array.astype(dtype)
        # tobytes() of an ascontiguousarray is always row by row, whatever slice or transpose came in
        data = np.ascontiguousarray(stored).tobytes()
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data": data}
    serialize_file(entries, path, {"format": "pt"})
