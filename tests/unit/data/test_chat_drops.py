from __future__ import annotations

import json

import pytest

from llmstack.data.chat import CHATML, ChatTemplate
from llmstack.data.chat_drops import DropCheck
from llmstack.data.records import Message
from llmstack.errors import DataError
from tests.unit.data.templates import SHAPES, Shape

SYSTEM, ASK, YES = Message("system", "a"), Message("user", "a"), Message("assistant", "a")
ADD = {"name": "add", "arguments": {}}
CALL = Message("assistant", "", json.dumps({"content": None, "tool_calls": [{"function": ADD}]}))
BARE_CALL = Message("assistant", "", json.dumps({"content": None, "tool_calls": [ADD]}))
RESULT = Message("tool", "3", '{"tool_call_id": "x"}')
TOOLS = '[{"name": "add"}]'


def check(source: str) -> DropCheck:
    template = ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})
    return DropCheck(lambda turns, tools: template.render(turns, add_generation_prompt=False, tools=tools))


def only(*roles: str) -> str:
    """A template that knows these roles alone."""
    return f"{{% for m in messages %}}{{% if m.role in {list(roles)} %}}{{{{ m.content }}}}{{% endif %}}{{% endfor %}}"


@pytest.mark.parametrize(
    ("source", "messages", "tools", "dropped"),
    [
        (CHATML, (SYSTEM, ASK, YES), "", ""),
        (only("user", "assistant"), (SYSTEM, ASK, YES), "", "the text of turn 0 (system)"),
        (only("system", "user"), (SYSTEM, ASK, YES), "", "the text of turn 2 (assistant)"),
        (only("user", "assistant"), (ASK, YES), "", ""),
        ("{{ messages[-1].content }}", (ASK, YES), "", "the text of turn 0 (user)"),
        (only("user", "assistant"), (Message("system", " "), ASK, YES), "", ""),
        (only("user", "assistant"), (ASK, CALL, RESULT, YES), "", "the tool calls of turn 1 (assistant)"),
        (only("user", "assistant"), (ASK, BARE_CALL, YES), "", "the tool calls of turn 1 (assistant)"),
        ("{{ messages | tojson }}", (ASK, CALL, RESULT, YES), "", ""),
        ("{{ messages | tojson }}{{ tools[0].name }}", (ASK, YES), TOOLS, ""),
        ("{{ messages | tojson }}{{ tools[0].name }}", (ASK, YES), '[{"name": "add"}, {"name": "sub"}]', "the tools"),
        ("{{ messages | tojson }}", (ASK, YES), TOOLS, "the tools"),
        ("{{ messages | tojson }}", (ASK, YES), '[{"function": {"name": "a"}}]', "the tools"),
    ],
)
def test_what_is_left_out(source: str, messages: tuple[Message, ...], tools: str, dropped: str) -> None:
    assert check(source).dropped(messages, tools) == dropped


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_real_shapes_leave_nothing_out(shape: Shape) -> None:
    messages = ((SYSTEM,) if shape.system else ()) + (ASK, YES, ASK, Message("assistant", "<think>b</think>\nc"))
    assert check(shape.template).dropped(messages, "") == ""
    if shape.tools:
        assert check(shape.template).dropped((ASK, CALL, RESULT, YES), TOOLS) == ""


def test_a_form_is_tried_once() -> None:
    rendered = []

    def render(turns: tuple[Message, ...], tools: str) -> str:
        rendered.append(turns)
        return "".join(turn.content for turn in turns if turn.role != "system")

    drops = DropCheck(render)
    for words in ("a", "b", "c"):
        assert drops.dropped((Message("system", words), Message("user", words)), "") == "the text of turn 0 (system)"
        assert drops.dropped((Message("user", words),), "") == ""
    assert len(rendered) == 2


def test_a_template_that_reads_the_words_is_tried_with_the_real_ones() -> None:
    strict = "{% for m in messages %}{% if 'qzx' in m.content %}{{ raise_exception('no') }}{% endif %}{% endfor %}"
    assert check(strict + only("user", "system")).dropped((SYSTEM, ASK), "") == ""
    assert check(strict + only("user")).dropped((Message("system", "b"), ASK), "") == "the text of turn 0 (system)"
    quoted = strict + "{{ messages[0].content | tojson }}"
    assert check(quoted).dropped((Message("user", 'say "\u00e9"\n'),), "") == ""


def test_the_template_is_named() -> None:
    template = ChatTemplate(only("user"), {}, where="my.jinja")
    with pytest.raises(DataError, match=r"^x:1, my\.jinja: .* leaves out the text of turn 0 \(system\)\. Rem"):
        template.refuse_drops((SYSTEM, ASK), add_generation_prompt=False, where="x:1")
    template.refuse_drops((ASK,), add_generation_prompt=True)
