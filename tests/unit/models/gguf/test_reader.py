from __future__ import annotations

import struct

import gguf
import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.models.gguf.reader import open_gguf
from tests.helpers.gguf_files import model_file

MAGIC = struct.pack("<IIQQ", 0x46554747, 3, 0, 1)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    model_file(path)
    return path


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def test_metadata_as_python_values(good):
    file = open_gguf(good)
    assert file.get("general.architecture", str) == "llama"
    assert file.get("llama.block_count", int) == 2
    assert file.get("llama.context_length", float) == 128.0
    assert file.get("tokenizer.ggml.tokens", list)[:3] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert file.get("not.there", int, 7) == 7
    assert file.tensors["token_embd.weight"].shape[1] == 64


def test_a_missing_key_and_one_of_another_kind(good):
    file = open_gguf(good)
    with pytest.raises(UserError, match=r"m\.gguf: expected the metadata key llama\.nothing, got none"):
        file.get("llama.nothing", int)
    with pytest.raises(UserError, match="llama.block_count: expected text, got 2"):
        file.get("llama.block_count", str)


def test_reading_gives_an_array_of_its_own(good):
    tensor = open_gguf(good).tensors["output_norm.weight"]
    tensor.read()[:] = 0
    assert tensor.read().any()


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.2, 0.5, 0.999])
def test_a_cut_off_file(good, share, tmp_path):
    content = good.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UserError, match=r"cut\.gguf: expected a GGUF file, got one that cannot be read"):
        open_gguf(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"GGML" + b"\0" * 64, "magic"),
        (b"\x93NUMPY" * 20, "magic"),
        (struct.pack("<IIQQ", 0x46554747, 1, 0, 0), "version 1"),
        (struct.pack("<I", 0x46554747) + struct.pack(">IQQ", 3, 0, 0), "little-endian"),
        (MAGIC + text("k") + struct.pack("<II", 9, 0) + struct.pack("<Q", 2**60) + b"\0" * 64, "entries"),
        (MAGIC + text("k") + struct.pack("<II", 9, 4) + struct.pack("<Q", 1000) + b"\0" * 64, "the file ends at byte"),
        (MAGIC + struct.pack("<Q", 2**62), "the file ends at byte"),
        (MAGIC + text("k") + struct.pack("<I", 99), "99"),
        (MAGIC + text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000, "recursion"),
        (MAGIC + struct.pack("<Q", 1) + b"\xff" + struct.pack("<IB", 0, 0), "utf-8"),
        (struct.pack("<IIQQ", 0x46554747, 3, 2**40, 0), "the file ends at byte"),
    ],
)
def test_made_up_files(content, words, tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"bad\.gguf: expected a GGUF file, .*{words}"):
        open_gguf(path)


def test_no_such_file(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        open_gguf(tmp_path / "nothing.gguf")


def test_one_part_of_several(tmp_path):
    model_file(tmp_path / "m.gguf", metadata={"split.count": 3})
    with pytest.raises(UserError, match="got one of 3 parts. Merge them"):
        open_gguf(tmp_path / "m.gguf")


def test_whole_numbers_are_no_weights(tmp_path):
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("ids", np.arange(6, dtype=np.int32).reshape(2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UserError, match="ids: expected a number format that can be dequantised, got I32"):
        open_gguf(path)
