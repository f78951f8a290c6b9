from __future__ import annotations

import shutil

import pytest

from llmstack.data.records import Message
from llmstack.errors import DataError, UserError
from llmstack.evaluation.answers import AnswerOptions, Writer
from llmstack.evaluation.conversing import Conversation
from llmstack.evaluation.loading import load_language_model
from llmstack.runtime import compile_count

GREEDY = AnswerOptions(max_new_tokens=9, temperature=0.0)


@pytest.fixture(scope="module")
def shared(language):
    return Conversation(language, GREEDY)


@pytest.fixture
def chat(shared):
    shared.system = None
    shared.reset()
    return shared


def test_an_answer_is_what_generate_writes(chat, language):
    pieces = list(chat.ask("red"))
    ids = language.tokenizer.encode_prompt([Message("user", "red")])
    ((written,),) = Writer(language, GREEDY).write([ids], wheres=[""])
    assert "".join(pieces) == written.text
    assert chat.turns == [Message("user", "red"), Message("assistant", written.text)]
    assert chat.ending == ("finished" if written.finished else "too_long")
    assert chat.num_tokens == len(ids) + written.num_tokens - written.finished


def test_the_next_turn_sees_the_ones_before(chat, language):
    list(chat.ask("red", stopped=lambda: True))
    chat.system = "blue"
    seen = []
    encode = language.tokenizer.encode_prompt
    language.tokenizer.encode_prompt = lambda turns, **where: seen.append(turns) or encode(turns, **where)
    try:
        list(chat.ask("x"))
    finally:
        del language.tokenizer.encode_prompt
    assert seen[0] == (Message("system", "blue"), *chat.turns[:2], Message("user", "x"))
    assert chat.messages == (Message("system", "blue"), *chat.turns)


def test_a_growing_conversation_compiles_nothing(chat):
    list(chat.ask("red", stopped=lambda: True))
    compile_count.install()
    before = compile_count.snapshot()
    list(chat.ask("x"))
    assert compile_count.snapshot() == before


def test_reset_forgets_all_but_the_system_message(chat):
    chat.system = "blue"
    list(chat.ask("red"))
    chat.reset()
    assert (chat.messages, chat.num_tokens) == ((Message("system", "blue"),), 0)


def test_the_caller_may_stop_an_answer(chat):
    whole = "".join(chat.ask("red"))
    chat.reset()
    begun = "".join(chat.ask("red", stopped=lambda: True))
    assert chat.ending == "stopped"
    assert whole.startswith(begun) and len(begun) < len(whole)
    assert chat.turns[1].content == begun


def test_an_answer_that_nobody_hears_to_the_end_is_kept_as_far_as_it_was_heard(chat):
    answer = chat.ask("red")
    heard = next(answer)
    answer.close()
    assert chat.turns == [Message("user", "red"), Message("assistant", heard)]


def test_the_context_fills_up(chat):
    with pytest.raises(UserError, match="context is full: expected a conversation below 64 tokens, got 101 with this"):
        list(chat.ask("white " * 80))
    assert chat.turns == []
    lengths = {len(chat.tokenizer.encode_prompt([Message("user", "x" * n)])): "x" * n for n in range(1, 80)}
    list(chat.ask(lengths[chat.context - 3]))
    assert (chat.ending, chat.num_tokens) == ("context_full", chat.context)
    with pytest.raises(UserError, match="context is full"):
        list(chat.ask("x"))


def test_what_cannot_be_said(chat):
    with pytest.raises(DataError, match="input: expected user text without control tokens"):
        list(chat.ask("a<|im_end|>"))
    with pytest.raises(UserError, match="input: expected UTF-8 text"):
        list(chat.ask("\udcff"))
    assert chat.turns == []


def test_a_model_without_a_template_does_not_chat(language_folder, tmp_path):
    path = shutil.copytree(language_folder, tmp_path / "model")
    (path / "chat_template.jinja").unlink()
    with pytest.raises(DataError, match="expected a chat template, got none"):
        Conversation(load_language_model(path), GREEDY)
