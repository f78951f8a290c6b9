"""Chat templates: rendering in a sandbox, and which characters of a conversation the assistant wrote.

Rendering follows ``apply_chat_template`` of transformers (an immutable sandbox, block trimming, loop controls, the
``{% generation %}`` tag, ``raise_exception``, ``tojson``), so a template shipped with a model means the same here.
"""

from __future__ import annotations

import datetime
import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.runtime
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llmstack.data.chat_drops import DropCheck
from llmstack.data.records import Message
from llmstack.errors import DataError

CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# A template may print today's date; a fixed day keeps the same recipe giving the same tokens on every day.
TEMPLATE_DATE = datetime.datetime(2024, 7, 26)

_GENERATION_TAG = re.compile(r"\{%-?\s*generation\s*-?%\}")

# private-use characters around what a generation tag holds, while its place is looked for
_OPEN, _CLOSE = "\ue000", "\ue001"


class EncodedChat(NamedTuple):
    """A conversation as tokens.

    Attributes:
        ids: token ids of the whole conversation.
        assistant_mask: as long as ``ids``; 1 where the assistant has to produce the token (its text and the token
            that ends its turn), 0 on prompts, role headers and the line break behind the ending token.
    """

    ids: list[int]
    assistant_mask: list[int]


class _GenerationTag(jinja2.ext.Extension):
    """``{% generation %}...{% endgeneration %}``: fences what the assistant wrote when ``_mark`` is set."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        """Turn the tag and its body into a call of ``_fence``."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        arguments: list[jinja2.nodes.Expr] = [jinja2.nodes.ContextReference()]
        return jinja2.nodes.CallBlock(self.call_method("_fence", arguments), [], [], body).set_lineno(line)

    def _fence(self, context: jinja2.runtime.Context, caller: jinja2.runtime.Macro) -> str:
        text = caller()
        return f"{_OPEN}{text}{_CLOSE}" if context.get("_mark") else text


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.exceptions.TemplateError(message)


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, sort_keys: bool = False) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, sort_keys=sort_keys)


def _strftime_now(pattern: str) -> str:
    return TEMPLATE_DATE.strftime(pattern)


class ChatTemplate:
    """A compiled chat template.

    Args:
        source: the Jinja text.
        special_tokens: ``bos_token``, ``eos_token`` ... as the template sees them.
        where: file of the template, for messages.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str], *, where: str = "chat_template") -> None:
        self.source = source
        self._special_tokens = dict(special_tokens)
        self._where = where
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, "jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._compiled = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise DataError(
                f"{where}:{error.lineno}: expected a Jinja chat template, got a syntax error ({error.message}). "
                "Correct the template."
            ) from error
        self._has_tag = bool(_GENERATION_TAG.search(source))
        self._drops = {
            opened: DropCheck(partial(self._written, add_generation_prompt=opened)) for opened in (False, True)
        }

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool, tools: str = "", where: str = ""
    ) -> str:
        """The conversation as one text.

        Args:
            messages: the turns.
            add_generation_prompt: end with the opening of an assistant turn.
            tools: JSON list of the schemas of the tools the assistant may call; empty: none.
            where: where the conversation comes from, for messages.

        Returns:
            What the model reads, control tokens written out.

        Raises:
            DataError: the template refuses the conversation or fails on it.
        """
        return self._render(messages, where, tools=tools, add_generation_prompt=add_generation_prompt, _mark=False)

    def _render(self, messages: Sequence[Message], where: str, *, tools: str, **options: bool) -> str:
        try:
            return self._compiled.render(
                messages=[message.as_turn() for message in messages],
                tools=json.loads(tools) if tools else None,
                documents=None,
                **options,
                **self._special_tokens,
            )
        except (jinja2.TemplateError, TypeError, KeyError, AttributeError, ValueError, IndexError) as error:
            roles = ", ".join(message.role for message in messages)
            raise DataError(
                f"{self._place(where)}: expected a conversation the chat template accepts, got roles {roles} "
                f"({error}). Change the messages or the template."
            ) from error

    def _written(self, messages: Sequence[Message], tools: str, *, add_generation_prompt: bool) -> str:
        return self.render(messages, add_generation_prompt=add_generation_prompt, tools=tools)

    def refuse_drops(
        self, messages: Sequence[Message], *, add_generation_prompt: bool, tools: str = "", where: str = ""
    ) -> None:
        """Refuse a conversation of which the template would leave something out.

        Args:
            messages: turns that the template renders.
            add_generation_prompt: end with the opening of an assistant turn.
            tools: JSON list of the schemas of the tools the assistant may call; empty: none.
            where: where the conversation comes from, for messages.

        Raises:
            DataError: the text of a turn, its tool calls or the tools are not in the rendering.
        """
        dropped = self._drops[add_generation_prompt].dropped(messages, tools)
        if dropped:
            raise DataError(
                f"{self._place(where)}: expected a chat template that writes the whole conversation, got one that "
                f"leaves out {dropped}. Remove it from the data, or change the template."
            )

    def _place(self, where: str) -> str:
        return f"{where}, {self._where}" if where else self._where

    def assistant_spans(
        self,
        messages: Sequence[Message],
        turn_end: str,
        *,
        tools: str = "",
        where: str = "",
        last_turn_only: bool = False,
    ) -> tuple[str, list[tuple[int, int]]]:
        """Which characters of the rendered conversation the assistant has to produce.

        A template with ``{% generation %}`` tags says so itself. Otherwise an assistant turn reaches from the end
        of the rendering of everything before it (with the generation prompt) to the token that ends the turn,
        that token included.

        Args:
            messages: the turns.
            turn_end: text of the token that ends an assistant turn.
            tools: JSON list of the schemas of the tools the assistant may call; empty: none.
            where: where the conversation comes from, for messages.
            last_turn_only: look for the assistant's last turn alone; the template may rewrite the earlier ones.

        Returns:
            The rendered text and (start, end) character offsets, one pair an assistant turn, in order.

        Raises:
            DataError: the rendering of the first turns is not how the whole conversation begins, so that nothing
                exact can be said.
        """
        text = self.render(messages, add_generation_prompt=False, tools=tools, where=where)
        if self._has_tag:
            marked = self._render(messages, where, tools=tools, add_generation_prompt=False, _mark=True)
            bare, fences = _fenced(marked)
            if bare != text:
                raise DataError(
                    f"{self._place(where)}: expected messages without the characters U+E000 and U+E001, got some. "
                    "Remove them."
                )
            return text, fences[-1:] if last_turn_only else fences
        spans = []
        turns = [index for index, message in enumerate(messages) if message.role == "assistant"]
        for index in turns[-1:] if last_turn_only else turns:
            prompt = self.render(messages[:index], add_generation_prompt=True, tools=tools, where=where)
            upto = (
                text
                if index + 1 == len(messages)
                else self.render(messages[: index + 1], add_generation_prompt=False, tools=tools, where=where)
            )
            end = upto.rfind(turn_end, len(prompt))
            if not text.startswith(prompt) or not text.startswith(upto) or end < 0:
                raise DataError(
                    f"{self._place(where)}: expected turn {index} to render the same in front of and inside the "
                    f"conversation and to end with {turn_end!r}, got a template that rewrites earlier turns. Put the "
                    "assistant's text between {% generation %} and {% endgeneration %} in the template."
                )
            spans.append((len(prompt), end + len(turn_end)))
        return text, spans


def _fenced(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """Take the fences out of a text and return where they stood."""
    pieces, spans, length = [], [], 0
    head, *rest = marked.split(_OPEN)
    pieces.append(head)
    length += len(head)
    for part in rest:
        inside, _, outside = part.partition(_CLOSE)
        spans.append((length, length + len(inside)))
        pieces += [inside, outside]
        length += len(inside) + len(outside)
    return "".join(pieces), spans


def span_mask(offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[int]:
    """1 for each token that begins inside a span; both sequences ascend.

    A token that begins in the prompt and reaches into the answer counts as prompt: the model is never asked for it
    when it generates. Where the prompt's ids are a prefix of the whole conversation's no token reaches across.

    Args:
        offsets: (start, end) characters of each token.
        spans: (start, end) characters of each assistant turn.

    Returns:
        One 0 or 1 a token.
    """
    mask = [0] * len(offsets)
    for start, end in spans:
        first, behind = bisect_left(offsets, (start, -1)), bisect_left(offsets, (end, -1))
        mask[first:behind] = [1] * (behind - first)
    return mask
