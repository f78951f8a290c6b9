from __future__ import annotations

import json

import numpy as np
import pytest

from llmstack.cli.main import main
from llmstack.data.tokenizer import Tokenizer
from llmstack.models.tensor_files import from_bfloat16_bits, stored_tensors
from llmstack.models.tensor_writer import to_bfloat16_bits
from tests.helpers.stages import causal_folder, scalar_folder, tokenizer


@pytest.fixture(params=[causal_folder, scalar_folder], ids=["causal", "scalar"])
def folder(request, tmp_path):
    path = request.param(tmp_path / "source")
    tokenizer().save(path)
    return path


def run(folder, out, *words):
    return main(["export", str(folder), "--out", str(out), *words])


def test_another_dtype(folder, tmp_path):
    assert run(folder, tmp_path / "out", "--dtype", "bfloat16") == 0
    before, after = stored_tensors(folder), stored_tensors(tmp_path / "out")
    assert set(before) == set(after)
    for name, tensor in after.items():
        assert tensor.dtype == "BF16"
        expected = from_bfloat16_bits(to_bfloat16_bits(before[name].read()))
        np.testing.assert_array_equal(tensor.read(), expected)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_the_dtype_stays_and_nothing_is_lost(folder, tmp_path):
    half, again = tmp_path / "half", tmp_path / "again"
    assert run(folder, half, "--dtype", "float16") == 0
    assert run(half, again) == 0
    assert (half / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes()
    for name in ("config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja"):
        assert (half / name).read_text() == (again / name).read_text()
    assert Tokenizer.load(folder).fingerprint() == Tokenizer.load(again).fingerprint()


def test_smaller_files(folder, tmp_path, capsys):
    assert run(folder, tmp_path / "out", "--max-shard-size", "10KB") == 0
    shards = sorted((tmp_path / "out").glob("model-*.safetensors"))
    assert len(shards) > 1 and not (tmp_path / "out" / "model.safetensors").exists()
    before, after = stored_tensors(folder), stored_tensors(tmp_path / "out")
    for name, tensor in before.items():
        np.testing.assert_array_equal(after[name].read(), tensor.read())
    assert "folder     " in capsys.readouterr().out
    # and back into one
    assert run(tmp_path / "out", tmp_path / "one") == 0
    assert len(list((tmp_path / "one").glob("*.safetensors"))) == 1


@pytest.mark.parametrize("size", ["5", "0GB", "-1GB", "GB", "5TB", "many"])
def test_a_size_that_is_none(size, folder, tmp_path, capsys):
    assert run(folder, tmp_path / "out", f"--max-shard-size={size}") == 2
    assert f"--max-shard-size: expected a size such as 5GB, 500MB or 64KB, got {size!r}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_left_alone(folder, capsys):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run(folder, folder) == 2
    assert "--out: expected a new or empty folder" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_no_folder(tmp_path, capsys):
    assert run(tmp_path / "nothing", tmp_path / "out") == 2
    assert "expected a model folder, got none" in capsys.readouterr().err


def test_a_number_too_large_leaves_nothing(folder, tmp_path, capsys):
    tensor = stored_tensors(folder)["model.norm.weight"]
    content = bytearray(tensor.path.read_bytes())
    content[tensor.offset : tensor.offset + 4] = np.float32(1e6).tobytes()
    tensor.path.write_bytes(content)
    assert run(folder, tmp_path / "out", "--dtype", "float16") == 2
    assert "model.norm.weight: expected numbers that fit float16, got 1e+06" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
