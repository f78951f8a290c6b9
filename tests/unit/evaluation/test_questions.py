from __future__ import annotations

import pytest

from llmstack.data.records import Message
from llmstack.errors import DataError, UserError
from llmstack.evaluation.questions import Asking, Question, conversation, questions_of, read_prompts, read_questions
from tests.helpers.stages import tokenizer, write_jsonl

USER = {"role": "user", "content": "red?"}
TURNS = (Message("system", "s"), Message("user", "red?"))


def test_prompts_of_the_command_line():
    assert [q.prompt for q in questions_of(["a", "b"])] == ["a", "b"]
    with pytest.raises(UserError, match="--prompt: expected some text, got none"):
        questions_of(["a", ""])
    with pytest.raises(UserError, match="--prompt: expected UTF-8 text"):
        questions_of(["a\udcff"])


def test_a_line_of_text_is_a_prompt(tmp_path):
    (tmp_path / "a.txt").write_text("one\n \n two \n")
    found = read_prompts(str(tmp_path / "a.txt"), {})
    assert [(q.prompt, q.where) for q in found] == [
        ("one", f"{tmp_path / 'a.txt'}:1"),
        (" two ", f"{tmp_path / 'a.txt'}:3"),
    ]
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(DataError, match="expected a prompt on each line, got only blank lines"):
        read_prompts(str(tmp_path / "a.txt"), {})


def test_rows_hold_a_prompt_or_messages(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"q": "one", "answer": "1"}, {"messages": [USER], "answer": None}])
    found = read_prompts(path, {"prompt": "q"})
    assert [(q.prompt, q.answer) for q in found] == [("one", "1"), ((Message("user", "red?"),), None)]
    assert [q.as_json for q in found] == ["one", [USER]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "", "answer": "1"}, "a.jsonl:1: expected some text in 'prompt', got none"),
        ({"text": "x", "answer": "1"}, "a.jsonl:1: expected field 'prompt', .* --field prompt=NAME"),
        ({"messages": [USER, {"role": "assistant", "content": "a"}], "answer": "1"}, "got an assistant's turn last"),
        ({"messages": [USER], "prompt": "x", "answer": "1"}, "expected either 'prompt' or 'messages', got both"),
        ({"prompt": "x"}, "a.jsonl:1: expected field 'answer'"),
        ({"messages": [USER], "tools": 3, "answer": "1"}, "a.jsonl:1: expected a list of objects in 'tools', got 3"),
        ({"prompt": "x", "answer": None}, "a.jsonl:1: expected a string in 'answer', got null"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        read_questions(write_jsonl(tmp_path / "a.jsonl", [row]), {}, needs_answer=True)


def test_ids_of_a_plain_prompt_and_of_a_conversation():
    encode = tokenizer().encode_prompt
    user = Message("user", "red?")
    assert Asking().ids(Question("red?"), tokenizer()) == tokenizer().encode("red?")
    assert Asking(chat=True).ids(Question("red?"), tokenizer()) == encode([user])
    assert Asking(chat=True, system="s").ids(Question("red?"), tokenizer()) == encode(TURNS)
    assert Asking().ids(Question((user,)), tokenizer()) == encode([user])
    assert Asking(system="s").ids(Question((user,)), tokenizer()) == encode(TURNS)


def test_tools_reach_the_template(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": [USER], "tools": [{"name": "add"}]}])
    (question,) = read_prompts(path, {})
    with pytest.raises(DataError, match=r"a\.jsonl:1, .*got one that leaves out the tools"):  # ChatML knows none
        Asking().ids(question, tokenizer())
    turn = {"role": "assistant", "content": None, "tool_calls": [{"name": "add"}]}
    path = write_jsonl(tmp_path / "b.jsonl", [{"messages": [USER, turn, USER]}])
    assert read_prompts(path, {})[0].as_json == [USER, turn, USER]


def test_a_system_message_has_one_place():
    with pytest.raises(UserError, match="a:1: expected no system message because of --system, got one"):
        Asking(system="s").ids(Question(TURNS, where="a:1"), tokenizer())
    with pytest.raises(UserError, match="a:1: expected a conversation because of --system, got a plain prompt"):
        Asking(system="s").ids(Question("x", where="a:1"), tokenizer())


def test_a_conversation_is_what_the_messages_source_reads(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [conversation(TURNS)])
    assert read_prompts(path, {})[0].prompt == TURNS
