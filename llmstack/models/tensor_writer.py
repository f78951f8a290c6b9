"""Writing safetensors files tensor by tensor, so that one tensor at a time is in memory, whatever the model's size."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from llmstack.errors import UserError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
STORED_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
STORED_WORDS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_ALIGNMENT = 8
_PART = 1 << 20
"""Numbers converted at a time."""


class LazyTensor(Protocol):
    """A named tensor whose numbers are fetched when they are asked for."""

    @property
    def name(self) -> str:
        """Its name in the file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, known without reading it."""

    def read(self) -> np.ndarray:
        """Its numbers as a float32 array of that shape."""


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


def write_streamed(tensors: Sequence[LazyTensor], folder: Path, *, dtype: str, max_shard_bytes: int) -> int:
    """Write ``model.safetensors``, or numbered shards with an index when the tensors pass a size.

    Weights that were in the folder go first: an old single file would be read before new shards. A tensor is read,
    converted, written and let go before the next one.

    Args:
        tensors: what to store, in this order.
        folder: an existing folder.
        dtype: ``float32``, ``float16`` or ``bfloat16``.
        max_shard_bytes: bytes of tensors above which a new file begins; one larger tensor gets a file of its own.

    Returns:
        Bytes of all tensors.

    Raises:
        UserError: a tensor holds a number that is not finite, or too large for ``dtype``.
    """
    for old in [*folder.glob("model*.safetensors"), folder / INDEX_FILE]:
        old.unlink(missing_ok=True)
    shards: list[list[LazyTensor]] = [[]]
    sizes = [0]
    for tensor in tensors:
        size = _stored_bytes(tensor, dtype)
        if shards[-1] and sizes[-1] + size > max_shard_bytes:
            shards.append([])
            sizes.append(0)
        shards[-1].append(tensor)
        sizes[-1] += size
    if len(shards) == 1:
        _write_file(shards[0], folder / SINGLE_FILE, dtype)
        return sizes[0]
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        file_name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _write_file(shard, folder / file_name, dtype)
        weight_map.update({tensor.name: file_name for tensor in shard})
    text = json.dumps({"metadata": {"total_size": sum(sizes)}, "weight_map": weight_map}, indent=2, sort_keys=True)
    (folder / INDEX_FILE).write_text(text + "\n", encoding="utf-8")
    return sum(sizes)


def _stored_bytes(tensor: LazyTensor, dtype: str) -> int:
    return math.prod(tensor.shape) * STORED_BYTES[dtype]


def _write_file(shard: Sequence[LazyTensor], path: Path, dtype: str) -> None:
    """The format: length of the header (8 bytes, little endian), a JSON header, the tensors' bytes without gaps."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in shard:
        start, end = end, end + _stored_bytes(tensor, dtype)
        header[tensor.name] = {"dtype": STORED_WORDS[dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in shard:
            for part in _parts(tensor):
                file.write(_stored(part, tensor.name, dtype).data)


def _parts(tensor: LazyTensor) -> Iterator[np.ndarray]:
    """A tensor's numbers row by row, whatever slice or transpose it is, in pieces that cost little to convert."""
    array = tensor.read()
    if array.shape != tuple(tensor.shape):
        raise ValueError(f"{tensor.name}: expected numbers of shape {tensor.shape}, got {array.shape}")
    numbers = np.ascontiguousarray(array).reshape(-1)
    for start in range(0, numbers.size, _PART):
        yield numbers[start : start + _PART]


def _stored(numbers: np.ndarray, name: str, dtype: str) -> np.ndarray:
    """Numbers as they are stored (uint8, one dimension), all of them finite."""
    if not np.isfinite(numbers).all():
        raise UserError(
            f"{name}: expected finite numbers, got NaN or infinity. Use weights from before the model diverged."
        )
    if dtype == "bfloat16":
        stored = to_bfloat16_bits(numbers)
        fits = not ((stored & 0x7FFF) == 0x7F80).any()
    else:
        with np.errstate(over="ignore"):  # told below, with the tensor's name
            stored = numbers.astype(dtype, copy=False)
        fits = dtype == "float32" or bool(np.isfinite(stored).all())
    if not fits:
        largest = float(np.abs(numbers).max())
        raise UserError(f"{name}: expected numbers that fit {dtype}, got {largest:g}. Store it as float32.")
    return stored.view(np.uint8)
