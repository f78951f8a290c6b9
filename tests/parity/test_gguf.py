"""GGUF files as transformers reads them: the same logits, the same tokens."""

from __future__ import annotations

import importlib
import json
import types

import numpy as np
import pytest

from llmstack.cli.main import main
from llmstack.data.tokenizer import Tokenizer
from llmstack.models.gguf.tokenizer import SPLITTERS
from tests.helpers.gguf_files import (
    model_file,
    model_metadata,
    plain_tokenizer,
    tokenizer_metadata,
)
from tests.unit.models.gguf.test_tokenizer import SAMPLES

transformers = pytest.importorskip("transformers", reason="needs the [parity] extra")

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("quant", ["F32", "Q8_0", "Q4_1"])
@pytest.mark.parametrize("arch", ["llama", "qwen2"])
def test_the_imported_folder_gives_the_logits_of_transformers_own_reader(arch, quant, tmp_path):
    torch = pytest.importorskip("torch", reason="needs the [parity] extra")
    model_file(tmp_path / "m.gguf", arch, quant=quant, tied=False)
    ours = loaded(tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=torch.float32)
    same_logits(ours, theirs)


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_the_imported_folder_gives_the_logits_of_the_model_it_came_from(arch, tmp_path):
    torch = pytest.importorskip("torch", reason="needs the [parity] extra")
    weights = model_file(tmp_path / "m.gguf", arch, tied=False)
    ours = loaded(tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_config(ours.config)
    theirs.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    same_logits(ours, theirs)


def loaded(folder):
    """The imported model in transformers, which must take the folder whole."""
    assert main(["import", str(folder / "m.gguf"), "--out", str(folder / "out")]) == 0
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder / "out", output_loading_info=True)
    assert not any(report.values()), report
    return model


def same_logits(ours, theirs):
    import torch

    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 320, (2, 9)))
    with torch.no_grad():
        expected, found = theirs(tokens).logits.numpy(), ours(tokens).logits.numpy()
    assert expected.std() > 0
    np.testing.assert_array_equal(found, expected)


def imported(tmp_path, pre):
    metadata = model_metadata("llama") | tokenizer_metadata(plain_tokenizer(), pre, size=323)
    model_file(tmp_path / "m.gguf", metadata=metadata)
    assert main(["import", str(tmp_path / "m.gguf"), "--out", str(tmp_path / "out")]) == 0
    return tmp_path / "out"


@pytest.mark.parametrize(("pre", "name"), [("gpt-2", "GPT2Converter"), ("qwen2", "Qwen2Converter")])
def test_tokens_are_those_of_their_conversion(pre, name, tmp_path):
    folder = imported(tmp_path, pre)
    model = json.loads(plain_tokenizer().to_str())["model"]
    converters = importlib.import_module("transformers.convert_slow_tokenizer")
    converter = getattr(converters, name)(types.SimpleNamespace(add_prefix_space=False, add_bos_token=False))
    theirs = converter.converted(model["vocab"], [tuple(merge) for merge in model["merges"]])
    ours = Tokenizer.load(folder)
    for text in (text for text in SAMPLES if "<|" not in text):
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids, text


def test_the_pattern_of_llama3_is_theirs():
    from transformers.convert_slow_tokenizer import TikTokenConverter

    assert SPLITTERS["llama-bpe"].pattern == TikTokenConverter("none").pattern


def test_transformers_loads_the_tokenizer_as_we_do(tmp_path):
    folder = imported(tmp_path, "llama-bpe")
    ours, theirs = Tokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder)
    for text in SAMPLES:
        assert theirs(text)["input_ids"] == [1, *ours.encode(text)]  # with BOS
    assert (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id) == (1, 2, 0)
    messages = [{"role": "user", "content": "hi"}]
    text = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
