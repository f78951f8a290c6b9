from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from llmstack.errors import UserError
from llmstack.models import tensor_writer
from llmstack.models.tensor_files import ArrayTensor, from_bfloat16_bits, tensors_of_file
from llmstack.models.tensor_writer import INDEX_FILE, to_bfloat16_bits, write_streamed


class Watched:
    """A tensor that keeps count of how many of its kind are in use."""

    alive = most = 0

    def __init__(self, name, size):
        self.name, self.shape = name, (size,)

    def read(self):
        Watched.alive += 1
        Watched.most = max(Watched.most, Watched.alive)
        array = np.ones(self.shape, np.float32).view(Counted)
        array.owner = True
        return array


class Counted(np.ndarray):
    owner = False

    def __del__(self):
        if self.owner:
            Watched.alive -= 1


def write(folder, *tensors, dtype="float32", max_shard_bytes=10**9):
    return write_streamed(tensors, folder, dtype=dtype, max_shard_bytes=max_shard_bytes)


def test_the_library_reads_what_was_written(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"a": (3, 4), "scalar": (), "none": (0, 5), "odd": (7,), "\u00e4": (1, 2, 3)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    assert write(tmp_path, *(ArrayTensor(name, array) for name, array in arrays.items())) == 4 * (12 + 1 + 7 + 6)
    found = load_file(tmp_path / "model.safetensors")
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_tensor_larger_than_the_piece_converted_at_a_time(dtype, monkeypatch, tmp_path):
    array = np.arange(1, 36, dtype=np.float32).reshape(5, 7).T  # exact in both, and not stored row by row
    monkeypatch.setattr(tensor_writer, "_PART", 4)
    write(tmp_path, ArrayTensor("w", array), dtype=dtype)
    np.testing.assert_array_equal(tensors_of_file(tmp_path / "model.safetensors")["w"].read(), array)


def test_one_tensor_at_a_time_is_in_memory(tmp_path):
    Watched.alive = Watched.most = 0
    write(tmp_path, *(Watched(f"t{i}", 100) for i in range(5)))
    assert Watched.most <= 2  # the next is read while a name still holds the last
    assert len(load_file(tmp_path / "model.safetensors")) == 5


def test_shards_say_where_each_tensor_is(tmp_path):
    tensors = [ArrayTensor(name, np.zeros(10, np.float32)) for name in "abc"]
    assert write(tmp_path, *tensors, max_shard_bytes=80) == 120
    index = json.loads((tmp_path / INDEX_FILE).read_text())
    first, second = (f"model-0000{n}-of-00002.safetensors" for n in (1, 2))
    assert index == {"metadata": {"total_size": 120}, "weight_map": {"a": first, "b": first, "c": second}}
    assert set(load_file(tmp_path / second)) == {"c"}


def test_bfloat16_by_hand():
    # 1 + 2^-8 lies between 1 and 1 + 2^-7: the tie goes to the even one, 1; a little more goes up
    values = np.array([1.0, 1 + 2**-8, 1 + 2**-8 + 2**-16, 1 + 3 * 2**-8, -2.5, np.inf, 3.4e38], np.float32)
    back = from_bfloat16_bits(to_bfloat16_bits(values))
    assert back.tolist() == [1.0, 1.0, 1 + 2**-7, 1 + 2**-6, -2.5, np.inf, np.inf]
    assert np.isnan(from_bfloat16_bits(to_bfloat16_bits(np.array([np.nan], np.float32))))[0]


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        ("float32", np.nan, "expected finite numbers, got NaN or infinity"),
        ("float32", -np.inf, "expected finite numbers, got NaN or infinity"),
        ("float16", -70000.0, "expected numbers that fit float16, got 70000. Store it as float32"),
        ("bfloat16", 3.4e38, r"expected numbers that fit bfloat16, got 3.4e\+38"),
    ],
)
def test_numbers_that_would_be_lost_are_refused(dtype, value, words, tmp_path):
    with pytest.raises(UserError, match=f"w: {words}"):
        write(tmp_path, ArrayTensor("w", np.array([1.0, value], np.float32)), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_large_numbers_that_fit_are_kept(dtype, tmp_path):
    write(tmp_path, ArrayTensor("w", np.array([65504.0], np.float32)), dtype=dtype)
    assert (tmp_path / "model.safetensors").is_file()


def test_numbers_of_another_shape_are_a_fault(tmp_path):
    tensor = Watched("t", 4)
    tensor.read = lambda: np.zeros(5, np.float32)
    with pytest.raises(ValueError, match=r"t: expected numbers of shape \(4,\), got \(5,\)"):
        write(tmp_path, tensor)
