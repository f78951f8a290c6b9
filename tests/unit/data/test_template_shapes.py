"""Conversations through templates of many shapes: ids as transformers makes them, what is trained, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmstack.data.records import Message
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from tests.unit.data.templates import (
    BRACKETS,
    DEFAULT_SYSTEM,
    HEADERS,
    RENAMED,
    SHAPES,
    TAGGED_THOUGHTS,
    THOUGHTS,
    Shape,
    tokenizer_of,
)

transformers = pytest.importorskip("transformers")

SYSTEM, ASK, MORE = Message("system", "Be brief."), Message("user", "Close the file?"), Message("user", "And now?")
YES, NO = Message("assistant", "yes, closed."), Message("assistant", "no \u00e9\n\nat all")
CALL = {"type": "function", "function": {"name": "close", "arguments": {"b": [1, "\u00e9"], "a": None}}}
TOOLS = json.dumps([{"type": "function", "function": {"name": "close", "description": "Closes \u00e9", "x": {"b": 1}}}])
TALK = (ASK, YES, MORE, NO)
TOOL_TALK = (
    ASK,
    Message("assistant", "", json.dumps({"content": None, "tool_calls": [CALL]})),
    Message("tool", "done \u00e9", '{"tool_call_id": "c1"}'),
    YES,
)


@pytest.fixture(scope="module", params=SHAPES)
def shape(request: pytest.FixtureRequest) -> Shape:
    return SHAPES[request.param]


@pytest.fixture(scope="module")
def ours(shape: Shape) -> Tokenizer:
    return tokenizer_of(shape)


@pytest.fixture(scope="module")
def theirs(ours: Tokenizer, tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    ours.save(folder)
    return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def talks(shape: Shape) -> list[tuple[tuple[Message, ...], str]]:
    """Conversations the shape takes, with their tools."""
    found = [((ASK, YES), ""), (TALK, "")]
    if shape.system:
        found += [((SYSTEM, *TALK), "")]
    if shape.tools:
        found += [(TALK, TOOLS), ((SYSTEM, *TOOL_TALK), TOOLS), (TOOL_TALK, "")]
    return found


def trained(tokenizer: Tokenizer, messages: tuple[Message, ...], tools: str = "") -> list[str]:
    """The runs of tokens the assistant has to produce, as text."""
    runs, open_run = [], False
    for token, mask in zip(*tokenizer.encode_chat(messages, tools=tools), strict=True):
        if mask and not open_run:
            runs.append([])
        if mask:
            runs[-1].append(token)
        open_run = bool(mask)
    return [tokenizer.decode(run, skip_special=False) for run in runs]


def test_ids_are_those_of_transformers(shape: Shape, ours: Tokenizer, theirs) -> None:
    for messages, tools in talks(shape):
        options = {"tools": json.loads(tools) if tools else None}
        turns = [message.as_turn() for message in messages]
        text = theirs.apply_chat_template(turns, tokenize=False, **options)
        assert ours.render(messages, add_generation_prompt=False, tools=tools) == text
        assert ours.encode_chat(messages, tools=tools).ids == theirs.apply_chat_template(turns, **options)
        asked = theirs.apply_chat_template(turns[:-1], add_generation_prompt=True, **options)
        assert ours.encode_prompt(messages[:-1], tools=tools) == asked


def test_bos_comes_once(shape: Shape, ours: Tokenizer) -> None:
    assert bool(ours.prefix_ids) == bool(shape.bos)
    for messages, tools in talks(shape) if shape.bos else ():
        for ids in (ours.encode_chat(messages, tools=tools).ids, ours.encode_prompt(messages[:-1], tools=tools)):
            assert ids[0] == ours.prefix_ids[0] and ids.count(ids[0]) == 1


def test_each_answer_is_trained_with_its_ending_token_and_no_more(shape: Shape, ours: Tokenizer) -> None:
    space = " " if shape is BRACKETS else ""
    wanted = [f"{space}{YES.content}{shape.eos}", f"{space}{NO.content}{shape.eos}"]
    assert trained(ours, TALK) == wanted
    last = ours.encode_chats([TALK], wheres=["x"], last_turn_only=True)[0]
    assert ours.decode([i for i, m in zip(*last, strict=True) if m], skip_special=False) == wanted[1]


def test_the_prompt_is_how_the_conversation_begins(shape: Shape, ours: Tokenizer) -> None:
    for messages, tools in talks(shape):
        prompt, (ids, mask) = ours.encode_prompt(messages[:-1], tools=tools), ours.encode_chat(messages, tools=tools)
        assert ids[: len(prompt)] == prompt
        assert mask[len(prompt)] == 1 and not mask[len(prompt) - 1]


@pytest.mark.parametrize("shape", [HEADERS, DEFAULT_SYSTEM], ids=["headers", "default_system"])
def test_tool_calls_are_trained_and_results_are_not(shape: Shape) -> None:
    runs = trained(tokenizer_of(shape), TOOL_TALK, TOOLS)
    assert len(runs) == 2 and '"name": "close"' in runs[0] and "done" not in "".join(runs)
    assert runs[0].endswith(shape.eos) and runs[1] == YES.content + shape.eos


@pytest.mark.parametrize("shape", [BRACKETS, RENAMED], ids=["brackets", "renamed"])
@pytest.mark.parametrize("messages", [(SYSTEM, ASK, YES), (ASK, MORE, YES), (YES,)], ids=["system", "twice", "answer"])
def test_what_a_template_refuses_names_row_and_template(shape: Shape, messages: tuple[Message, ...]) -> None:
    roles = ", ".join(message.role for message in messages)
    message = rf"x\.jsonl:7, model template: expected a conversation the chat template accepts, got roles {roles} \("
    with pytest.raises(DataError, match=message):
        tokenizer_of(shape).encode_chat(messages, where="x.jsonl:7")


THOUGHT = Message("assistant", "<think>\nhm\n</think>\n\nyes")


def test_thinking_is_trained_where_it_is_written() -> None:
    tokenizer = tokenizer_of(THOUGHTS)
    assert trained(tokenizer, (ASK, THOUGHT)) == [THOUGHT.content + "<|im_end|>"]
    assert trained(tokenizer, (ASK, YES, MORE, THOUGHT)) == [
        YES.content + "<|im_end|>",
        THOUGHT.content + "<|im_end|>",
    ]


def test_a_rewritten_turn_is_refused_unless_the_template_marks_it() -> None:
    message = r"x:1, model template: expected turn 1 to render the same .* Put the assistant's text between {% gener"
    with pytest.raises(DataError, match=message):
        tokenizer_of(THOUGHTS).encode_chat((ASK, THOUGHT, MORE, THOUGHT), where="x:1")
    assert trained(tokenizer_of(TAGGED_THOUGHTS), (ASK, THOUGHT, MORE, THOUGHT)) == [
        "yes<|im_end|>",
        THOUGHT.content + "<|im_end|>",
    ]


def test_a_rewritten_turn_may_stand_before_the_only_one_that_counts() -> None:
    tokenizer = tokenizer_of(THOUGHTS)
    ids, mask = tokenizer.encode_chats([(ASK, THOUGHT, MORE, YES)], wheres=["x"], last_turn_only=True)[0]
    assert (
        tokenizer.decode([i for i, m in zip(ids, mask, strict=True) if m], skip_special=False)
        == "yes, closed.<|im_end|>"
    )
