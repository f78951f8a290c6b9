from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from llmstack.cli.main import main
from llmstack.data.tokenizer import Tokenizer
from llmstack.models.checkpoint_io import build_causal, load_weights
from llmstack.models.hf_config import read_config
from llmstack.models.tensor_files import stored_tensors
from llmstack.models.weights import export_arrays
from tests.helpers.gguf_files import model_file, plain_tokenizer
from tests.helpers.stages import causal_folder, scalar_folder, tokenizer

FILES = [
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
]


@pytest.fixture
def folder(tmp_path):
    path = causal_folder(tmp_path / "source")
    tokenizer().save(path)
    return path


def run(source, out, *words):
    return main(["import", str(source), "--out", str(out), *words])


def refused(capsys, tmp_path, source):
    """The one line an import ends with; nothing is left where it should have gone."""
    out = tmp_path / "imported"
    assert run(source, out) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1, shown.err
    assert not [path for path in tmp_path.iterdir() if "imported" in path.name]
    return shown.err


def edit(folder, name, **changes):
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(folder, **changes):
    save_file({**load_file(folder / "model.safetensors"), **changes}, folder / "model.safetensors")


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_a_gguf_file_becomes_a_model_folder(arch, tmp_path, capsys):
    weights = model_file(tmp_path / "m.gguf", arch, quant="F16")
    assert run(tmp_path / "m.gguf", tmp_path / "out") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert set(stored) == set(weights)
    for name, array in weights.items():
        expected = array.astype(np.float16).astype(np.float32) if array.ndim > 1 else array
        np.testing.assert_array_equal(stored[name], expected, err_msg=name)
    ours = Tokenizer.load(tmp_path / "out")
    assert ours.encode("the lazy dog") == plain_tokenizer().encode("the lazy dog").ids
    assert (ours.eos_id, ours.pad_id, ours.has_template) == (2, 0, True)
    load_weights(build_causal(read_config(tmp_path / "out"), seed=0), tmp_path / "out")
    out = capsys.readouterr().out
    assert f"family     {arch}, 2 layers, width 64, 4 query heads on 2\n" in out
    assert f"parameters {sum(array.size for array in weights.values()):,}\n" in out
    assert "stored as  F16, F32\n" in out and "written as float32" in out and "seconds\n" in out


def test_a_folder_is_the_same_model_afterwards(folder, tmp_path):
    edit(folder, "generation_config.json", temperature=0.7, transformers_version="9")
    assert run(folder, tmp_path / "out") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    before, after = (build_causal(read_config(path), seed=0) for path in (folder, tmp_path / "out"))
    load_weights(before, folder)
    load_weights(after, tmp_path / "out")
    expected = export_arrays(before)
    for name, array in export_arrays(after).items():
        np.testing.assert_array_equal(array, expected[name])
    assert Tokenizer.load(folder).fingerprint() == Tokenizer.load(tmp_path / "out").fingerprint()
    options = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert options["temperature"] == 0.7 and options["eos_token_id"] == list(tokenizer().eos_ids)


@pytest.mark.parametrize(("dtype", "word"), [("float16", "F16"), ("bfloat16", "BF16")])
def test_the_dtype_is_an_option(dtype, word, folder, tmp_path):
    assert run(folder, tmp_path / "out", "--dtype", dtype) == 0
    assert {tensor.dtype for tensor in stored_tensors(tmp_path / "out").values()} == {word}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["torch_dtype"] == dtype


def test_one_file_takes_what_is_beside_it(folder, tmp_path):
    assert run(folder / "model.safetensors", tmp_path / "out") == 0
    assert (tmp_path / "out" / "model.safetensors").read_bytes() != b""
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == load_file(folder / "model.safetensors").keys()


def test_a_model_that_scores(tmp_path):
    path = scalar_folder(tmp_path / "source")
    tokenizer().save(path)
    assert run(path, tmp_path / "out") == 0
    assert "score.weight" in load_file(tmp_path / "out" / "model.safetensors")


def test_mindspore_is_never_loaded(folder, tmp_path):
    model_file(tmp_path / "m.gguf")
    code = (
        "import sys; from llmstack.cli.main import main; s = main(sys.argv[1:]); print('mindspore' in sys.modules, s)"
    )
    for number, source in enumerate((folder, tmp_path / "m.gguf")):
        command = [sys.executable, "-c", code, "import", str(source), "--out", str(tmp_path / f"out{number}")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.splitlines()[-1] == "False 0", done.stderr


def test_a_folder_that_is_there_is_left_alone(folder, tmp_path, capsys):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run(folder, folder) == 2
    assert "--out: expected a new or empty folder" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_no_source(tmp_path, capsys):
    assert "expected a model folder, a .safetensors file or a .gguf file, got nothing" in refused(
        capsys, tmp_path, tmp_path / "nothing"
    )
    (tmp_path / "notes.txt").write_text("")
    assert "got a file of another kind" in refused(capsys, tmp_path, tmp_path / "notes.txt")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt"])
def test_pickles(name, folder, tmp_path, capsys):
    (folder / "model.safetensors").rename(folder / name)
    for source in (folder, folder / name):
        assert f"{name}: expected safetensors weights, got a " in refused(capsys, tmp_path, source)


def test_a_tokenizer_larger_than_the_model(folder, tmp_path, capsys):
    config = json.loads((folder / "config.json").read_text())
    size = config["vocab_size"] - 1
    edit_weights(folder, **{"model.embed_tokens.weight": np.zeros((size, config["hidden_size"]), np.float32)})
    edit(folder, "config.json", vocab_size=size)
    error = refused(capsys, tmp_path, folder)
    assert f"expected a tokenizer of at most the model's {size} ids, got one of {size + 1}" in error


def test_no_tokenizer(folder, tmp_path, capsys):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"")
    assert "expected tokenizer.json beside the weights, got none" in refused(capsys, tmp_path, folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"{", "config.json: expected JSON"),
        ("config.json", b"[" * 100_000, "config.json: expected JSON"),
        ("config.json", b'{"model_type": "mamba"}', "model_type: expected one of "),
        ("model.safetensors", b"", "model.safetensors: expected a safetensors file"),
        ("model.safetensors", b"\xff" * 64, "model.safetensors: expected a safetensors file"),
        ("tokenizer.json", b"{}", "tokenizer.json: expected a tokenizers file"),
        ("tokenizer_config.json", b"[]", "tokenizer_config.json: expected a JSON object"),
        ("tokenizer_config.json", b"{}", "expected an eos_token"),
        ("chat_template.jinja", b"{% if %}", "expected a Jinja chat template"),
        ("generation_config.json", b"[]", "generation_config.json: expected a JSON object"),
    ],
)
def test_damaged_files(name, content, message, folder, tmp_path, capsys):
    (folder / name).write_bytes(content)
    if name == "tokenizer_config.json":
        (folder / "special_tokens_map.json").unlink()
    assert message in refused(capsys, tmp_path, folder)


def test_a_cut_off_weight_file(folder, tmp_path, capsys):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    assert "model.safetensors: expected a safetensors file" in refused(capsys, tmp_path, folder)


def test_numbers_found_wrong_while_writing_leave_nothing(folder, tmp_path, capsys):
    edit_weights(folder, **{"model.norm.weight": np.full(16, np.nan, np.float32)})
    assert "model.norm.weight: expected finite numbers" in refused(capsys, tmp_path, folder)


def test_a_damaged_gguf_file(tmp_path, capsys):
    model_file(tmp_path / "m.gguf")
    (tmp_path / "m.gguf").write_bytes((tmp_path / "m.gguf").read_bytes()[:5000])
    assert "m.gguf: expected a GGUF file, got one that cannot be read" in refused(capsys, tmp_path, tmp_path / "m.gguf")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"tokenizer.ggml.pre": "tekken"}, "tokenizer.ggml.pre: expected one of"),
        ({"tokenizer.chat_template": "{% if %}"}, "m.gguf template:1: expected a Jinja chat template"),
        ({"llama.rope.scaling.type": "odd", "llama.rope.scaling.factor": 2.0}, "got 'odd'"),
        ({"llama.embedding_length": None}, "expected the metadata key llama.embedding_length"),
    ],
)
def test_a_gguf_file_of_another_kind(metadata, message, tmp_path, capsys):
    model_file(tmp_path / "m.gguf", metadata=metadata)
    assert message in refused(capsys, tmp_path, tmp_path / "m.gguf")
