"""A GGUF file: its metadata as Python values and its tensors, dequantised one at a time.

The `gguf` package does the reading. It trusts the lengths a file claims, so each access is checked against the file's
end here: a truncated or made-up file is an error, never an endless loop.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import gguf
import numpy as np

from llmstack.errors import UserError

T = TypeVar("T")
_REQUIRED: Any = object()
# A large vocabulary is a quarter of a million tokens, each with a merge, a score and a type
_MAX_ENTRIES = 4_000_000
_ARRAY = int(gguf.GGUFValueType.ARRAY)
_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", list: "a list"}


@dataclass(frozen=True)
class GgufTensor:
    """One tensor, as it is stored.

    Attributes:
        name: its name in the file.
        shape: its shape, slowest axis first.
        type_name: the file's word for its number format, e.g. ``Q4_1``.
        data: its bytes, mapped from the file.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    data: np.ndarray = field(repr=False)

    def read(self) -> np.ndarray:
        """Its numbers as a new float32 array of its shape.

        Raises:
            NotImplementedError: numpy cannot dequantise the format; :func:`open_gguf` lets no such tensor through.
        """
        numbers = gguf.dequantize(self.data, gguf.GGMLQuantizationType[self.type_name])
        return np.array(numbers, np.float32, copy=self.type_name == "F32").reshape(self.shape)


@dataclass(frozen=True)
class GgufFile:
    """What a GGUF file holds.

    Attributes:
        path: the file.
        metadata: every key and its value: numbers, text, or a list of these.
        tensors: by name.
    """

    path: Path
    metadata: dict[str, Any] = field(repr=False)
    tensors: dict[str, GgufTensor] = field(repr=False)

    def get(self, key: str, kind: type[T], default: T | None = _REQUIRED) -> T:
        """A value of the metadata.

        Args:
            key: its key.
            kind: the Python type it must have; a whole number passes for ``float``.
            default: what to give when the key is not there; without it the key is needed.

        Raises:
            UserError: the key is missing or its value is of another kind.
        """
        if key not in self.metadata:
            if default is not _REQUIRED:
                return default  # type: ignore[return-value]
            raise UserError(
                f"{self.path}: expected the metadata key {key}, got none. Convert the model to GGUF again with a "
                "current converter."
            )
        value = self.metadata[key]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise UserError(f"{self.path}: {key}: expected {_KINDS[kind]}, got {_short(value)}. Convert it again.")
        return value


class _BoundedReader(gguf.GGUFReader):
    """The package's reader with every access checked against the file's length."""

    _entries = 0

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> np.ndarray:
        if self.byte_order != "I" or sys.byteorder != "little":
            raise ValueError("expected a little-endian file on a little-endian machine")
        end = int(offset) + np.dtype(dtype).itemsize * int(count)
        if end > len(self.data):
            raise ValueError(f"the file ends at byte {len(self.data)}, inside something that should reach to {end}")
        return self.data.view(np.ndarray)[int(offset) : end].view(dtype)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        if raw_type == _ARRAY:
            self._entries += int(self._get(orig_offs + 4, np.uint64)[0])
            if self._entries > _MAX_ENTRIES:
                raise ValueError(f"its lists claim more than {_MAX_ENTRIES} entries")
        return super()._get_field_parts(orig_offs, raw_type)


def open_gguf(path: Path) -> GgufFile:
    """Read a GGUF file's metadata and find its tensors.

    Args:
        path: the file.

    Raises:
        UserError: it is not a GGUF file of version 2 or 3, is cut off or damaged, is one part of several, or holds a
            number format that numpy cannot dequantise.
    """
    try:
        reader = _BoundedReader(path)
        metadata = {name: entry.contents() for name, entry in reader.fields.items() if not name.startswith("GGUF.")}
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(
            f"{path}: expected a GGUF file, got one that cannot be read: {error}. Copy it again."
        ) from error
    tensors = {
        tensor.name: GgufTensor(
            tensor.name, tuple(int(n) for n in reversed(tensor.shape)), tensor.tensor_type.name, tensor.data
        )
        for tensor in reader.tensors
    }
    file = GgufFile(path, metadata, tensors)
    parts = file.get("split.count", int, 1)
    if parts > 1:
        raise UserError(
            f"{path}: expected one whole GGUF file, got one of {parts} parts. Merge them with "
            "`llama-gguf-split --merge`, then import the result."
        )
    _check_formats(file)
    return file


def _check_formats(file: GgufFile) -> None:
    """Refuses formats that cannot be dequantised before anything is written, by trying the first row of each."""
    first = {tensor.type_name: tensor for tensor in file.tensors.values()}
    for name, tensor in first.items():
        try:
            row = tensor.data[:1] if tensor.data.ndim > 1 else tensor.data
            gguf.dequantize(row, gguf.GGMLQuantizationType[name])
        except NotImplementedError as error:
            raise UserError(
                f"{file.path}: {tensor.name}: expected a number format that can be dequantised, got {name}. "
                "Use a file in another format, e.g. Q8_0 or F16."
            ) from error


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
