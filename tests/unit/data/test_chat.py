from __future__ import annotations

import pytest

from llmstack.data.chat import CHATML, ChatTemplate, span_mask
from llmstack.data.records import Message
from llmstack.errors import DataError

CHAT = (Message("system", "Be brief."), Message("user", "hi"), Message("assistant", "Hello."))
TAGGED = (
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}"
    "{%- generation %}{{ m.content }}<e>{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
)


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})


def test_chatml_by_hand() -> None:
    assert template(CHATML).render(CHAT, add_generation_prompt=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n"
    )
    assert template(CHATML).render(CHAT[1:2], add_generation_prompt=True) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_template_sees_special_tokens_and_helpers() -> None:
    source = "{{ bos_token }}{{ messages[0].content | tojson }}{{ strftime_now('%Y-%m-%d') }}{{ eos_token }}"
    assert template(source).render((Message("user", 'é"'),), add_generation_prompt=False) == '<s>"é\\""2024-07-26</s>'


def test_loop_controls_and_trimmed_blocks() -> None:
    source = (
        "{% for m in messages %}\n    {% if m.role == 'user' %}\n{% continue %}\n    {% endif %}\n"
        "{{ m.content }}{% endfor %}"
    )
    assert template(source).render(CHAT, add_generation_prompt=False) == "Be brief.Hello."


def test_template_cannot_reach_into_python() -> None:
    with pytest.raises(DataError, match="unsafe"):
        template("{{ messages.__class__.__mro__ }}").render(CHAT, add_generation_prompt=False)


def test_template_cannot_change_the_messages() -> None:
    with pytest.raises(DataError, match="unsafe"):
        template("{{ messages.append(1) }}").render(CHAT, add_generation_prompt=False)


def test_template_may_refuse_a_conversation() -> None:
    with pytest.raises(DataError, match="got roles system, user, assistant .no system turns."):
        template("{{ raise_exception('no system turns') }}").render(CHAT, add_generation_prompt=False)


def test_syntax_error_names_the_line() -> None:
    with pytest.raises(DataError, match="chat_template:2: expected a Jinja chat template"):
        template("\n{% if %}")


def test_spans_by_prefix() -> None:
    text, spans = template(CHATML).assistant_spans((*CHAT, *CHAT[1:]), "<|im_end|>")
    assert [text[start:end] for start, end in spans] == ["Hello.<|im_end|>"] * 2
    assert text[: spans[0][0]].endswith("<|im_start|>assistant\n")


def test_spans_by_generation_tag() -> None:
    text, spans = template(TAGGED).assistant_spans((*CHAT, *CHAT[1:]), "unused")
    assert text == "[system]Be brief.[user]hi[assistant]Hello.<e>[user]hi[assistant]Hello.<e>"
    assert [text[start:end] for start, end in spans] == ["Hello.<e>"] * 2


def test_generation_tag_refuses_its_own_fences() -> None:
    with pytest.raises(DataError, match="without the characters"):
        template(TAGGED).assistant_spans((Message("assistant", "a\ue000b"),), "unused")


def test_template_that_rewrites_earlier_turns_is_refused() -> None:
    source = (
        "{% for m in messages %}{{ m.role }}{% if loop.last or m.role != 'assistant' %}{{ m.content }}{% endif %}"
        "<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant{% endif %}"
    )
    chat = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    with pytest.raises(DataError, match="expected turn 1 to render the same"):
        template(source).assistant_spans(chat, "<|im_end|>")


def test_the_last_turn_alone() -> None:
    chat = (*CHAT, *CHAT[1:])
    for source, end in ((CHATML, "<|im_end|>"), (TAGGED, "<e>")):
        text, spans = template(source).assistant_spans(chat, end, last_turn_only=True)
        assert spans == template(source).assistant_spans(chat, end)[1][-1:]
        assert text[slice(*spans[0])] == f"Hello.{end}"


def test_tools_and_extra_keys_reach_the_template() -> None:
    source = "{{ tools[0].name if tools else 'none' }}{% for m in messages %}{{ m.name }}{{ m.content }}{% endfor %}"
    chat = (Message("user", "hi", '{"name": "Ann"}'), Message("assistant", "", '{"content": null}'))
    assert template(source).render(chat, add_generation_prompt=False, tools='[{"name": "add"}]') == "addAnnhiNone"
    assert template(source).render(chat[:1], add_generation_prompt=False) == "noneAnnhi"


def test_a_refusal_names_where_the_conversation_comes_from() -> None:
    with pytest.raises(DataError, match="^x:3, chat_template: expected a conversation .* roles user .no."):
        template("{{ raise_exception('no') }}").render(CHAT[1:2], add_generation_prompt=False, where="x:3")


def test_span_mask_by_hand() -> None:
    #          "ab"    "cd"    "ef"    "gh"
    offsets = [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert span_mask(offsets, [(2, 6)]) == [0, 1, 1, 0]
    # a token that reaches from the prompt into the answer is prompt; one that begins inside is answer
    assert span_mask(offsets, [(3, 7)]) == [0, 0, 1, 1]
    assert span_mask(offsets, [(0, 2), (6, 8)]) == [1, 0, 0, 1]
    assert span_mask(offsets, []) == [0, 0, 0, 0]
