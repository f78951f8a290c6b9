"""A saved tokenizer means the same to transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmstack.data.chat import CHATML
from llmstack.data.records import Message
from llmstack.data.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers")

CHATS = (
    (Message("user", "hi"), Message("assistant", "Hello there.\n")),
    (Message("system", " s "), Message("user", "é \n x"), Message("assistant", ""), Message("user", "\tq")),
)
TAGGED = (
    "{% for m in messages %}<|im_start|>{{ m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture(scope="module", params=[CHATML, TAGGED], ids=["chatml", "generation_tag"])
def both(request: pytest.FixtureRequest, bpe: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    bpe.save(folder)
    ours = Tokenizer.load(folder, template=request.param)
    ours.save(folder)
    return ours, transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def as_dicts(chat: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in chat]


def test_same_special_tokens(both: tuple) -> None:
    ours, theirs = both
    assert (theirs.eos_token_id, theirs.pad_token_id, len(theirs)) == (ours.eos_id, ours.pad_id, ours.vocab_size)


@pytest.mark.parametrize("text", ["Return the value.", " two  spaces\n\n\ttab", "naïve 東京 🙂", "a<|endoftext|>b", ""])
def test_same_encoding_and_exact_decoding(both: tuple, text: str) -> None:
    ours, theirs = both
    assert theirs(text)["input_ids"] == ours.encode(text)
    assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text), skip_special=False) == text


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("generation", [False, True])
def test_same_chat(both: tuple, chat: tuple[Message, ...], generation: bool) -> None:
    ours, theirs = both
    text = theirs.apply_chat_template(as_dicts(chat), tokenize=False, add_generation_prompt=generation)
    assert ours.render(chat, add_generation_prompt=generation) == text
    encoded = theirs.apply_chat_template(as_dicts(chat), tokenize=True, add_generation_prompt=generation)
    assert (ours.encode_prompt(chat) if generation else ours.encode_chat(chat).ids) == encoded


@pytest.mark.parametrize("chat", CHATS)
def test_same_assistant_mask_as_the_generation_tag(both: tuple, chat: tuple[Message, ...]) -> None:
    ours, theirs = both
    tagged = theirs.apply_chat_template(
        as_dicts(chat), chat_template=TAGGED, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    assert ours.encode_chat(chat).assistant_mask == tagged["assistant_masks"]
