from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from llmstack.errors import UserError
from llmstack.models import tensor_files as files


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {"a": rng.normal(size=(3, 4)).astype(np.float32), "b": rng.normal(size=5).astype(np.float32)}


def _read(folder):
    return {name: tensor.read() for name, tensor in files.stored_tensors(folder).items()}


def test_one_file_round_trips_and_the_library_reads_it(arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=10**9)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    for found in (_read(tmp_path), load_file(tmp_path / "model.safetensors")):
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)


def test_slices_and_transposes_are_stored_row_by_row(tmp_path):
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    views = {"columns": square[:, 1:3], "turned": square.T, "strided": square[::2]}
    files.write_tensors(views.items(), tmp_path, dtype="float32", max_shard_bytes=10**9)
    for name, array in _read(tmp_path).items():
        np.testing.assert_array_equal(array, views[name])


def test_shards_have_an_index(arrays, tmp_path):
    # a is 48 bytes, b 20: neither shard holds both
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=60)
    index = json.loads((tmp_path / files.INDEX_FILE).read_text())
    assert index["metadata"]["total_size"] == 68
    assert index["weight_map"] == {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    found = _read(tmp_path)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("sizes", [(10**9, 60), (60, 10**9), (60, 20)])
def test_writing_again_leaves_nothing_of_before(sizes, arrays, tmp_path):
    before = {name: array - 1 for name, array in arrays.items()} | {"gone": np.zeros(3, np.float32)}
    files.write_tensors(before.items(), tmp_path, dtype="float32", max_shard_bytes=sizes[0])
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=sizes[1])
    found = _read(tmp_path)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_tensor_larger_than_a_shard_gets_its_own(arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=1)
    assert len(list(tmp_path.glob("model-*.safetensors"))) == 2
    assert set(_read(tmp_path)) == {"a", "b"}


def test_bfloat16_by_hand():
    # 1 + 2^-8 lies between 1 and 1 + 2^-7: the tie goes to the even one, 1; a little more goes up
    values = np.array([1.0, 1 + 2**-8, 1 + 2**-8 + 2**-16, 1 + 3 * 2**-8, -2.5, np.inf, 3.4e38], np.float32)
    back = files.from_bfloat16_bits(files.to_bfloat16_bits(values))
    assert back.tolist() == [1.0, 1.0, 1 + 2**-7, 1 + 2**-6, -2.5, np.inf, np.inf]
    assert np.isnan(files.from_bfloat16_bits(files.to_bfloat16_bits(np.array([np.nan], np.float32))))[0]


@pytest.mark.parametrize(("dtype", "word"), [("bfloat16", "BF16"), ("float16", "F16")])
def test_half_precision_is_half_the_size_and_reads_back_as_float32(dtype, word, arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype=dtype, max_shard_bytes=10**9)
    stored = files.stored_tensors(tmp_path)
    assert {tensor.dtype for tensor in stored.values()} == {word}
    back = stored["a"].read()
    assert back.dtype == np.float32
    rounded = files.from_bfloat16_bits(files.to_bfloat16_bits(arrays["a"]))
    np.testing.assert_array_equal(back, rounded if dtype == "bfloat16" else arrays["a"].astype(np.float16))


def test_whole_numbers_are_refused_when_read(tmp_path):
    save_file({"ids": np.arange(3)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="expected ids in F64, F32, F16, BF16, got I64"):
        files.stored_tensors(tmp_path)["ids"].read()


def test_no_weights_at_all(tmp_path):
    with pytest.raises(UserError, match="expected a model folder with model.safetensors or .*, got neither"):
        files.stored_tensors(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a safetensors file at all", b"\xff" * 64])
def test_a_damaged_file(content, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match="model.safetensors: expected a safetensors file"):
        files.stored_tensors(tmp_path)


def test_a_cut_off_file(arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=10**9)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="expected a safetensors file"):
        files.stored_tensors(tmp_path)


def test_damaged_indexes(arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=60)
    index = tmp_path / files.INDEX_FILE
    good = json.loads(index.read_text())
    good["weight_map"]["c"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(good))
    with pytest.raises(UserError, match=r"got none for \['c'\]"):
        files.stored_tensors(tmp_path)
    good["weight_map"]["c"] = "elsewhere.safetensors"
    index.write_text(json.dumps(good))
    with pytest.raises(UserError, match=r"expected the files it names, got none at \['elsewhere.safetensors'\]"):
        files.stored_tensors(tmp_path)
    index.write_text("{}")
    with pytest.raises(UserError, match="expected JSON with a `weight_map`"):
        files.stored_tensors(tmp_path)
