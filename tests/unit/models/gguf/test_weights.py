from __future__ import annotations

import gguf
import numpy as np
import pytest

from llmstack.models.gguf.config import config_json
from llmstack.models.gguf.reader import open_gguf
from llmstack.models.gguf.weights import hugging_face_tensors, undo_permutation
from tests.helpers.gguf_files import model_file, permuted
from tests.tolerances import QUANTISED_ATOL


def imported(path):
    file = open_gguf(path)
    return {name: tensor.read() for name, tensor in hugging_face_tensors(file, config_json(file)).items()}


def test_rows_by_hand():
    # two heads of width 4: rows 0 1 | 2 3 are stored as 0 2 1 3
    stored = np.array([0, 2, 1, 3, 4, 6, 5, 7], np.float32)
    assert undo_permutation(stored, 2).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("shape", [(24, 5), (24,)])
def test_the_converters_permutation_is_undone(shape):
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    assert not np.array_equal(permuted(array, 3), array)
    np.testing.assert_array_equal(undo_permutation(permuted(array, 3), 3), array)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_every_weight_comes_back(arch, tied, tmp_path):
    weights = model_file(tmp_path / "m.gguf", arch, tied=tied)
    found = imported(tmp_path / "m.gguf")
    assert set(found) == set(weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("quant", sorted(QUANTISED_ATOL))
def test_each_format_is_dequantised_as_the_package_does(quant, tmp_path):
    weights = model_file(tmp_path / "m.gguf", quant=quant)
    found = imported(tmp_path / "m.gguf")
    for name, array in weights.items():
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], array, rtol=0, atol=QUANTISED_ATOL[quant], err_msg=name)
    kind = gguf.GGMLQuantizationType[quant]
    embedding = weights["model.embed_tokens.weight"]
    expected = gguf.dequantize(gguf.quantize(embedding, kind), kind)
    np.testing.assert_array_equal(found["model.embed_tokens.weight"], expected)
    assert not np.array_equal(expected, embedding)


def test_a_tensor_without_a_name_of_theirs_keeps_its_own(tmp_path):
    extra = {"blk.0.ffn_gate_inp.weight": np.ones((4, 64), np.float32), "rope_freqs.weight": np.ones(8, np.float32)}
    model_file(tmp_path / "m.gguf", tensors=extra)
    found = imported(tmp_path / "m.gguf")
    assert "blk.0.ffn_gate_inp.weight" in found
    assert "rope_freqs.weight" not in found
