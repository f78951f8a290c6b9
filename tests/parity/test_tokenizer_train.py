"""A folder of `llmstack tokenizer train` means the same to transformers."""

from __future__ import annotations

import pytest

from llmstack.cli.main import main
from llmstack.data.records import Message
from llmstack.data.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity


def test_auto_tokenizer_reads_it(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(f"Return the value of option {n}." for n in range(30)))
    out = tmp_path / "out"
    assert main(["tokenizer", "train", str(tmp_path / "a.txt"), "--out", str(out), "--vocab-size", "300"]) == 0
    ours, theirs = Tokenizer.load(out), transformers.AutoTokenizer.from_pretrained(out, local_files_only=True)
    assert (len(theirs), theirs.eos_token_id, theirs.pad_token_id) == (ours.vocab_size, ours.eos_id, ours.pad_id)
    for text in ("Return the value.\n\nOption 3", " two  spaces\t", "naïve 東京 🙂", "a<|im_end|>b"):
        assert theirs(text)["input_ids"] == ours.encode(text)
    chat = [{"role": "user", "content": "Return?"}, {"role": "assistant", "content": "Yes."}]
    messages = [Message(**turn) for turn in chat]
    assert theirs.apply_chat_template(chat, tokenize=True) == ours.encode_chat(messages).ids
