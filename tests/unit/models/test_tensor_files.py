from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from llmstack.errors import UserError
from llmstack.models import tensor_files as files
from llmstack.models.tensor_writer import to_bfloat16_bits


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


@pytest.mark.parametrize(("dtype", "word"), [("bfloat16", "BF16"), ("float16", "F16")])
def test_half_precision_is_half_the_size_and_reads_back_as_float32(dtype, word, arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype=dtype, max_shard_bytes=10**9)
    stored = files.stored_tensors(tmp_path)
    assert {tensor.dtype for tensor in stored.values()} == {word}
    back = stored["a"].read()
    assert back.dtype == np.float32
    rounded = files.from_bfloat16_bits(to_bfloat16_bits(arrays["a"]))
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


def _header(path, text, data=b""):
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def _entry(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("entries", "num_bytes"),
    [
        ({"a": _entry([2], 0, 8), "b": _entry([2], 4, 12)}, 12),
        ({"a": _entry([2], 0, 8), "b": _entry([2], 0, 8)}, 8),
        ({"a": _entry([2], 8, 16)}, 16),
        ({"a": _entry([2], 0, 8)}, 7),
        ({"a": _entry([2], 0, 8)}, 9),
        ({"a": _entry([3], 0, 8)}, 8),
        ({"a": _entry([2], 8, 0)}, 8),
        ({"a": _entry([-2], 0, 8)}, 8),
        ({"a": _entry([2], -8, 0)}, 8),
        ({"a": _entry([2**40, 2**40], 0, 8)}, 8),
        ({"a": _entry([2], 0, 8, "F99")}, 8),
        ({"a": {"dtype": "F32"}}, 0),
        ({"a": 5}, 0),
        ([], 0),
    ],
)
def test_a_header_that_does_not_fit_its_bytes(entries, num_bytes, tmp_path):
    _header(tmp_path / "model.safetensors", json.dumps(entries).encode(), b"\0" * num_bytes)
    with pytest.raises(UserError, match="model.safetensors: expected a safetensors file, got: "):
        files.stored_tensors(tmp_path)


@pytest.mark.parametrize("length", [9, 10**6, 100_000_001, 2**63])
def test_a_header_whose_length_lies(length, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}      ")
    with pytest.raises(UserError, match="model.safetensors: expected a safetensors file, got: "):
        files.stored_tensors(tmp_path)


@pytest.mark.parametrize("text", [b'{"a\xff": {}}', b"[" * 100_000, b'{"a":' * 100_000])
def test_a_header_that_is_no_json(text, tmp_path):
    _header(tmp_path / "model.safetensors", text)
    with pytest.raises(UserError, match="model.safetensors: expected a safetensors file, got: "):
        files.stored_tensors(tmp_path)


def test_a_tensor_twice_in_one_file(tmp_path):
    entry = json.dumps(_entry([2], 0, 8))
    _header(tmp_path / "model.safetensors", f'{{"a": {entry}, "a": {entry}}}'.encode(), b"\0" * 8)
    with pytest.raises(UserError, match=r"got \['a'\] more than once in it"):
        files.stored_tensors(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt", "MODEL.PT"])
def test_pickles_are_named_and_never_opened(name, tmp_path):
    (tmp_path / name).mkdir()  # whoever opens it fails
    with pytest.raises(UserError, match=f"{name}: expected safetensors weights, got a .* file: .* `save_pretrained`"):
        files.stored_tensors(tmp_path)
    with pytest.raises(UserError, match="can run any code"):
        files.refuse_pickle(tmp_path / name)
    files.refuse_pickle(tmp_path / "model.safetensors")


def test_pickles_beside_safetensors_do_no_harm(arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=10**9)
    (tmp_path / "training_args.bin").write_bytes(b"?")
    assert set(files.stored_tensors(tmp_path)) == set(arrays)


def _index(folder, weight_map):
    (folder / files.INDEX_FILE).write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize(
    "name",
    [
        "../secret.safetensors",
        "/etc/secret.safetensors",
        "sub/secret.safetensors",
        "..\\secret.safetensors",
        "C:secret.safetensors",
        "secret.safetensors\0",
        "..",
        "",
        "pytorch_model.bin",
        None,
        5,
    ],
)
def test_an_index_does_not_lead_out_of_its_folder(name, arrays, tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for place in (tmp_path, folder / "sub"):
        files.write_tensors(arrays.items(), place, dtype="float32", max_shard_bytes=10**9)
        (place / "model.safetensors").rename(place / "secret.safetensors")
    _index(folder, {"a": name})
    with pytest.raises(UserError, match="expected names of .safetensors files in its own folder, got "):
        files.stored_tensors(folder)


def test_a_link_that_the_user_made_is_followed(arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=10**9)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "part.safetensors").symlink_to(tmp_path / "model.safetensors")
    _index(folder, dict.fromkeys(arrays, "part.safetensors"))
    assert set(files.stored_tensors(folder)) == set(arrays)


def test_a_tensor_in_two_files_and_one_in_another_than_listed(arrays, tmp_path):
    for number in (1, 2):
        files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=10**9)
        (tmp_path / "model.safetensors").rename(tmp_path / f"part{number}.safetensors")
    _index(tmp_path, {"a": "part1.safetensors", "b": "part2.safetensors"})
    with pytest.raises(UserError, match="expected each tensor in one file, got a in part1.safetensors and part2"):
        files.stored_tensors(tmp_path)
    files.write_tensors([("c", arrays["b"])], tmp_path, dtype="float32", max_shard_bytes=10**9)
    (tmp_path / "model.safetensors").rename(tmp_path / "part2.safetensors")
    _index(tmp_path, {"a": "part2.safetensors", "b": "part1.safetensors"})
    with pytest.raises(UserError, match=r"expected every tensor in the file it lists, got none for \['a'\]"):
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
    for text in ("{}", "{", "[]", '{"weight_map": [1]}', '{"weight_map": {"a": [1]}}', "[" * 100_000):
        index.write_text(text)
        with pytest.raises(UserError, match="expected JSON with a `weight_map`"):
            files.stored_tensors(tmp_path)


def test_changed_bytes_of_a_header_are_an_error_never_a_fault(arrays, tmp_path):
    files.write_tensors(arrays.items(), tmp_path, dtype="float32", max_shard_bytes=10**9)
    path = tmp_path / "model.safetensors"
    good, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(300):
        content = bytearray(good)
        for place in rng.integers(0, len(good) - 68, rng.integers(1, 4)):  # the header: 48 + 20 bytes are numbers
            content[place] = rng.choice((0, 34, 44, 49, 125, 255))
        path.write_bytes(content)
        try:
            files.stored_tensors(tmp_path)
        except UserError as error:
            assert "model.safetensors" in str(error)
            refused += 1
    assert refused > 200
