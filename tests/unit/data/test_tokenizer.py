from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.records import Message
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from tests.unit.data.letters import ASSISTANT, END, NEWLINE, PAD, START, STOP, USER, ids, letter_tokenizer

USER_TURN, ANSWER = Message("user", "hi"), Message("assistant", "yo.")


def test_ids_by_hand(letters: Tokenizer) -> None:
    assert letters.encode("ab.\n") == [10, 11, 6, 4]
    assert letters.encode_batch(["a", "", "ba"]) == [[10], [], [11, 10]]
    assert (letters.vocab_size, letters.pad_id, letters.eos_id, letters.eos_ids) == (36, PAD, END, (END, STOP))
    assert letters.decode([10, STOP, 11]) == "ab"
    assert letters.decode([10, STOP], skip_special=False) == "a<|im_end|>"
    assert letters.control_tokens["<|im_end|>"] == STOP
    assert sorted(letters.control_tokens.values()) == sorted({i for i in range(36) if letters.decode([i]) == ""})


def test_assistant_mask_by_hand(letters: Tokenizer) -> None:
    encoded = letters.encode_chat((USER_TURN, ANSWER, USER_TURN, ANSWER))
    turn_ids = [START, USER, *ids("hi"), STOP, NEWLINE, START, ASSISTANT, *ids("yo"), 6, STOP, NEWLINE]
    #           <s>    U     h  i        </s>  \n       <s>    A          y  o        .  </s>  \n
    turn_mask = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0]
    assert encoded.ids == turn_ids * 2
    assert encoded.assistant_mask == turn_mask * 2


def test_prompt_is_a_prefix_of_the_conversation(bpe: Tokenizer) -> None:
    prompt, encoded = bpe.encode_prompt((USER_TURN,)), bpe.encode_chat((USER_TURN, ANSWER))
    assert encoded.ids[: len(prompt)] == prompt
    assert encoded.assistant_mask == [0] * len(prompt) + [1] * (len(encoded.ids) - len(prompt) - 1) + [0]
    trained = [i for i, m in zip(*encoded, strict=True) if m]
    assert bpe.decode(trained, skip_special=False) == "yo.<|im_end|>"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=12)), min_size=1, max_size=5)
)
def test_mask_is_exact_for_any_text(bpe: Tokenizer, turns: list[tuple[str, str]]) -> None:
    messages = [Message(role, text) for role, text in turns]
    encoded = bpe.encode_chat(messages)
    assert encoded.ids == bpe.encode(bpe.render(messages, add_generation_prompt=False))
    assert bpe.decode(encoded.ids, skip_special=False) == bpe.render(messages, add_generation_prompt=False)
    trained = [i for i, m in zip(*encoded, strict=True) if m]
    text = bpe.decode(trained, skip_special=False)
    assert trained.count(bpe.eos_ids[1]) == sum(role == "assistant" for role, _ in turns)
    expected = "".join(text + "<|im_end|>" for role, text in turns if role == "assistant")
    # a merge across the border belongs to the prompt; it is always white space here
    assert text.replace("\n", "") == expected.replace("\n", "") or text.split() == expected.split()


def test_control_token_in_a_turn_is_refused(letters: Tokenizer) -> None:
    with pytest.raises(DataError, match=r"x\.jsonl:7: expected user text without control tokens, got '<\|im_end\|>'"):
        letters.encode_chat((Message("user", "a<|im_end|>b"), ANSWER), where="x.jsonl:7")
    with pytest.raises(DataError, match="prompt: expected user text without control tokens"):
        letters.encode_prompt((Message("user", "<|pad|>"),))


def test_control_token_in_tools_is_refused(letters: Tokenizer) -> None:
    with pytest.raises(DataError, match="x: expected tools text without control tokens, got '<.pad.>'"):
        letters.encode_chats([(USER_TURN, ANSWER)], wheres=["x"], tools=['[{"name": "<|pad|>"}]'])
    call = Message("assistant", "", '{"tool_calls": [{"name": "<|im_end|>"}]}')
    with pytest.raises(DataError, match="messages: expected assistant text without control tokens, got '<.im_end.>'"):
        letters.encode_chat((USER_TURN, call))


def test_a_template_that_drops_something_is_refused(letters: Tokenizer) -> None:
    with pytest.raises(DataError, match="^x:1, tokenizer template: .* leaves out the tools"):
        letters.encode_chats([(USER_TURN, ANSWER)], wheres=["x:1"], tools=['[{"name": "a"}]'])
    with pytest.raises(DataError, match="^prompt, tokenizer template: .* leaves out the tools"):
        letters.encode_prompt((USER_TURN,), tools='[{"name": "a"}]')


def test_no_template() -> None:
    with pytest.raises(DataError, match=r"expected a chat template, got none\. Set `tokenizer.chat_template`"):
        letter_tokenizer(template=None).encode_prompt((USER_TURN,))


def test_template_without_an_ending_token() -> None:
    tokenizer = letter_tokenizer(template="{% for m in messages %}{{ m.content }}\n{% endfor %}")
    assert tokenizer.eos_ids == (END,)
    with pytest.raises(DataError, match="a model trained on it never stops"):
        tokenizer.encode_chat((USER_TURN, ANSWER))


def test_template_that_refuses_the_probe_has_no_ending_token() -> None:
    assert letter_tokenizer(template="{{ raise_exception('no') }}").eos_ids == (END,)


def test_pad_may_be_the_end_of_text_token() -> None:
    tokenizer = letter_tokenizer(pad="<|endoftext|>")
    assert tokenizer.pad_id == tokenizer.eos_id == END
    assert tokenizer.encode_chat((USER_TURN, ANSWER)) == letter_tokenizer().encode_chat((USER_TURN, ANSWER))


def test_bos_comes_once() -> None:
    tokenizer = letter_tokenizer(bos=True, template="{{ '<|im_start|>' }}{{ messages[0].content }}")
    assert tokenizer.prefix_ids == (START,)
    assert tokenizer.encode("ab") == [10, 11]
    assert tokenizer.encode_prompt((Message("user", "ab"),)) == [START, 10, 11]
    assert letter_tokenizer().prefix_ids == ()


def test_missing_eos_token() -> None:
    backend, options = train_bpe(["a b c"], 262)
    with pytest.raises(DataError, match="expected an eos_token that is in the vocabulary, got '</s>'"):
        Tokenizer(backend, {**options, "eos_token": "</s>"}, None)


def test_save_and_load_keep_everything(bpe: Tokenizer, tmp_path: Path) -> None:
    bpe.save(tmp_path / "tok")
    loaded = Tokenizer.load(tmp_path / "tok")
    assert sorted(path.name for path in (tmp_path / "tok").iterdir()) == [
        "chat_template.jinja",
        "generation_config.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert loaded.fingerprint() == bpe.fingerprint()
    assert (loaded.eos_ids, loaded.pad_id) == (bpe.eos_ids, bpe.pad_id)
    assert loaded.encode_chat((USER_TURN, ANSWER)) == bpe.encode_chat((USER_TURN, ANSWER))
    assert json.loads((tmp_path / "tok" / "generation_config.json").read_text()) == {
        "eos_token_id": list(bpe.eos_ids),
        "pad_token_id": bpe.pad_id,
    }


def test_fingerprint_tells_templates_apart(letters: Tokenizer) -> None:
    assert letters.fingerprint() == letter_tokenizer().fingerprint()
    assert letters.fingerprint() != letter_tokenizer(template=CHATML).fingerprint()
