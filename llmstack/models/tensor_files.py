"""Safetensors files as float32 arrays: reading and writing, one file or several with an index.

The library's own numpy front end has no bfloat16, so stored bytes are turned into numbers here. Files that can hold
code (pickles) are named and refused, never opened.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from llmstack.errors import UserError
from llmstack.models.tensor_writer import INDEX_FILE, SINGLE_FILE, write_streamed

# Buffers that old exports stored beside the weights; they follow from config.json
_DERIVED_SUFFIX = ".rotary_emb.inv_freq"
_READABLE = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


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

    def check_dtype(self) -> None:
        """Refuse numbers that are not floating point.

        Raises:
            UserError: the dtype is not one of F64, F32, F16, BF16.
        """
        if self.dtype not in _READABLE:
            raise UserError(
                f"{self.path}: expected {self.name} in {', '.join(_READABLE)}, got {self.dtype}. "
                "Export the model in floating point."
            )

    def read(self) -> np.ndarray:
        """Its numbers as a new float32 array.

        Raises:
            UserError: the dtype is not a floating-point one.
        """
        self.check_dtype()
        stored = np.fromfile(self.path, _READABLE[self.dtype], math.prod(self.shape), offset=self.offset)
        numbers = from_bfloat16_bits(stored) if self.dtype == "BF16" else stored.astype(np.float32, copy=False)
        return numbers.reshape(self.shape)


@dataclass(frozen=True)
class ArrayTensor:
    """An array under a name.

    Attributes:
        name: its name in the file.
        array: its numbers, float32 of any shape.
    """

    name: str
    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.array.shape

    def read(self) -> np.ndarray:
        """The array itself."""
        return self.array


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of a model folder by name, from its one file or from all files its index names.

    Args:
        folder: a Hugging Face model folder.

    Raises:
        UserError: no weights there or only pickles, an unreadable file, an index that names a file outside the folder
            or a file or tensor that is not there, or a tensor that is there twice.
    """
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if single.is_file():
        return tensors_of_file(single)
    if not index.is_file():
        raise _no_weights(folder)
    weight_map = _weight_map(index)
    found: dict[str, StoredTensor] = {}
    for file in sorted(set(weight_map.values())):
        for tensor in _tensors_of(folder / file):
            if tensor.name in found:
                raise UserError(
                    f"{index}: expected each tensor in one file, got {tensor.name} in {found[tensor.name].path.name} "
                    f"and {file}. Export it again."
                )
            found[tensor.name] = tensor
    lost = sorted(name for name, file in weight_map.items() if name not in found or found[name].path.name != file)
    if lost:
        raise UserError(f"{index}: expected every tensor in the file it lists, got none for {lost}. Export it again.")
    return found


def stored_weights(source: Path) -> dict[str, StoredTensor]:
    """The tensors that are weights of a model: of a model folder, or of one file.

    Args:
        source: a Hugging Face model folder or a safetensors file.

    Raises:
        UserError: as :func:`stored_tensors` and :func:`tensors_of_file`.
    """
    tensors = tensors_of_file(source) if source.is_file() else stored_tensors(source)
    return {name: tensor for name, tensor in tensors.items() if not name.endswith(_DERIVED_SUFFIX)}


def drop_tied_copy(tensors: dict[str, StoredTensor], *, head: str, embedding: str) -> None:
    """Forget a stored head that repeats the embedding: some exporters write a tied matrix twice.

    Args:
        tensors: the tensors of a model with a tied head, by name; changed in place.
        head: name of the head.
        embedding: name of the embedding.
    """
    one, other = tensors.get(head), tensors.get(embedding)
    if one and other and one.shape == other.shape and np.array_equal(one.read(), other.read()):
        del tensors[head]


def tensors_of_file(path: Path) -> dict[str, StoredTensor]:
    """Every tensor of one safetensors file by name.

    Args:
        path: the file.

    Raises:
        UserError: it cannot be read, is cut off, or its header does not fit its bytes.
    """
    return {tensor.name: tensor for tensor in _tensors_of(path)}


def refuse_pickle(path: Path) -> None:
    """Refuse a file whose kind can hold code, by its name alone: it is never opened.

    Args:
        path: a file of weights.

    Raises:
        UserError: its suffix is one of a pickle.
    """
    if _is_pickle(path):
        raise UserError(_pickle_message(path))


def write_tensors(arrays: Iterable[tuple[str, np.ndarray]], folder: Path, *, dtype: str, max_shard_bytes: int) -> None:
    """Write arrays that are in memory as :func:`llmstack.models.tensor_writer.write_streamed` writes tensors.

    Args:
        arrays: (name, float32 array) pairs in the order they should be stored.
        folder: an existing folder.
        dtype: ``float32``, ``float16`` or ``bfloat16``.
        max_shard_bytes: bytes of tensors above which a new file begins; one larger tensor gets a file of its own.

    Raises:
        UserError: a number that is not finite, or too large for ``dtype``.
    """
    tensors = [ArrayTensor(name, array) for name, array in arrays]
    write_streamed(tensors, folder, dtype=dtype, max_shard_bytes=max_shard_bytes)


def _no_weights(folder: Path) -> UserError:
    """What to say about a folder without safetensors: pickles, when there are some, with the way to convert them."""
    pickles = sorted(path for path in folder.iterdir() if _is_pickle(path)) if folder.is_dir() else []
    if pickles:
        return UserError(_pickle_message(pickles[0]))
    return UserError(
        f"{folder}: expected a model folder with {SINGLE_FILE} or {INDEX_FILE}, got neither. "
        "Name a folder written by a finished stage or by `save_pretrained`."
    )


def _is_pickle(path: Path) -> bool:
    return path.suffix.lower() in PICKLE_SUFFIXES


def _pickle_message(path: Path) -> str:
    return (
        f"{path}: expected safetensors weights, got a {path.suffix} file: such a pickle can run any code when it is "
        "loaded, so it is never opened here. If you trust where it comes from, load it with the program that wrote it "
        "and save safetensors (transformers: `from_pretrained`, then `save_pretrained`)."
    )


def _weight_map(index: Path) -> Mapping[str, str]:
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = set(weight_map.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{index}: expected JSON with a `weight_map`, got {error!r}. Export it again.") from error
    # a model folder is read as a whole: a name may not lead out of it, whoever wrote the index
    outside = sorted(repr(file) for file in files if not _is_plain_name(file))
    if outside:
        raise UserError(
            f"{index}: expected names of .safetensors files in its own folder, got {', '.join(outside)}. "
            "Export it again, or correct the names."
        )
    missing = sorted(file for file in files if not (index.parent / file).is_file())
    if missing:
        raise UserError(f"{index}: expected the files it names, got none at {missing}. Copy the whole folder.")
    return weight_map


def _is_plain_name(file: Any) -> bool:
    return isinstance(file, str) and file.endswith(".safetensors") and not set(file) & {"/", "\\", "\0", ":"}


def _tensors_of(path: Path) -> Iterator[StoredTensor]:
    try:
        with safe_open(path, "numpy"):  # checks the header against the file's length, offsets against each other
            pass
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: expected a safetensors file, got: {error}. Copy or export it again.") from error
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        pairs = json.loads(file.read(header_bytes), object_pairs_hook=list)
    twice = sorted(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
    if twice:
        raise UserError(f"{path}: expected a safetensors file, got {twice} more than once in it. Export it again.")
    for name, entry in pairs:
        if name != "__metadata__":
            values = dict(entry)
            start = 8 + header_bytes + values["data_offsets"][0]
            yield StoredTensor(name, tuple(values["shape"]), values["dtype"], path, start)
