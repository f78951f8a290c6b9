"""Chat templates in the shapes that well-known models ship, written for these tests."""

from __future__ import annotations

from typing import NamedTuple

from tokenizers import AddedToken, processors

from llmstack.data.bpe import train_bpe
from llmstack.data.tokenizer import Tokenizer


class Shape(NamedTuple):
    """A family's template with the special tokens it needs.

    Attributes:
        template: the Jinja text.
        special: the tokens it writes.
        bos: the one in front of everything, or empty.
        eos: the one that ends an assistant's turn.
        system: whether it takes a system turn.
        tools: whether it takes tools.
    """

    template: str
    special: tuple[str, ...]
    bos: str
    eos: str
    system: bool = True
    tools: bool = False


HEADERS = Shape(
    """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set system = '' %}
    {%- set turns = messages %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' + system }}
{%- if tools is not none %}
    {{- '\\nFunctions:\\n' }}
    {%- for tool in tools %}{{- tool | tojson(indent=2) + '\\n' }}{%- endfor %}
{%- endif %}
{{- '<|eot_id|>' }}
{%- for turn in turns %}
    {%- if turn.tool_calls %}
        {%- if turn.tool_calls | length != 1 %}{{- raise_exception('one call at a time') }}{%- endif %}
        {%- set call = turn.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- {'name': call.name, 'parameters': call.arguments} | tojson + '<|eot_id|>' }}
    {%- elif turn.role == 'tool' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + turn.content | tojson + '<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + turn.role + '<|end_header_id|>\\n\\n' + turn.content | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    "<|begin_of_text|>",
    "<|eot_id|>",
    tools=True,
)
"""Llama 3: BOS in the template, role headers, an end-of-turn token, tools in the system turn."""

DEFAULT_SYSTEM = Shape(
    """\
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content %}
{%- else %}
    {%- set system = 'You are a careful assistant.' %}
{%- endif %}
{{- '<|im_start|>system\\n' + system }}
{%- if tools %}
    {{- '\\n\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' + tool | tojson }}{%- endfor %}
    {{- '\\n</tools>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for turn in messages %}
    {%- if turn.role == 'system' and loop.first %}
        {%- continue %}
    {%- elif turn.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + turn.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- else %}
        {{- '<|im_start|>' + turn.role + '\\n' + (turn.content or '') }}
        {%- for call in turn.tool_calls or [] %}
            {{- '\\n<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
""",
    ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    "",
    "<|im_end|>",
    tools=True,
)
"""Qwen: ChatML with a system turn of its own where there is none, tools, results of tools in a user's turn."""

BRACKETS = Shape(
    """\
{{- bos_token }}
{%- for turn in messages %}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant must alternate') }}
    {%- endif %}
    {%- if turn['role'] == 'user' %}
        {{- '[INST] ' + turn['content'] + ' [/INST]' }}
    {%- elif turn['role'] == 'assistant' %}
        {{- ' ' + turn['content'] + eos_token }}
    {%- else %}
        {{- raise_exception('only user and assistant have a turn') }}
    {%- endif %}
{%- endfor %}
""",
    ("<s>", "</s>"),
    "<s>",
    "</s>",
    system=False,
)
"""Mistral: BOS once, roles in brackets that are plain text, no system turn, no generation prompt of its own."""

RENAMED = Shape(
    """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{%- endif %}
{%- for turn in messages %}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant must alternate') }}
    {%- endif %}
    {%- set role = 'model' if turn['role'] == 'assistant' else turn['role'] %}
    {{- '<start_of_turn>' + role + '\\n' + turn['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{%- endif %}
""",
    ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
    "<bos>",
    "<end_of_turn>",
    system=False,
)
"""Gemma: BOS, the assistant is called model, a system turn is refused, roles must alternate."""

TAGGED = Shape(
    """\
{%- for turn in messages %}
    {{- '<|' + turn.role + '|>\\n' }}
    {%- if turn.role == 'assistant' %}
        {%- generation %}{{- turn.content + '<|end|>' }}{%- endgeneration %}
    {%- else %}
        {{- turn.content + '<|end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}
""",
    ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
    "",
    "<|end|>",
)
"""A template that marks by itself what the assistant writes."""

_THOUGHTS = """\
{%- for turn in messages %}
    {%- set text = turn.content %}
    {%- if turn.role == 'assistant' and not loop.last and '</think>' in text %}
        {%- set text = text.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + turn.role + '\\n' }}
    {%- if turn.role == 'assistant' %}OPEN{{- text + '<|im_end|>' }}CLOSE
    {%- else %}{{- text + '<|im_end|>' }}{%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
THOUGHTS = Shape(_THOUGHTS.replace("OPEN", "").replace("CLOSE", ""), _CHATML, "", "<|im_end|>")
"""A reasoning model: what was thought in earlier turns is taken out."""

TAGGED_THOUGHTS = THOUGHTS._replace(
    template=_THOUGHTS.replace("OPEN", "{%- generation %}").replace("CLOSE", "{%- endgeneration %}")
)
"""The same with marks around what the assistant writes."""

SHAPES = {
    "headers": HEADERS,
    "default_system": DEFAULT_SYSTEM,
    "brackets": BRACKETS,
    "renamed": RENAMED,
    "tagged": TAGGED,
    "thoughts": THOUGHTS,
    "tagged_thoughts": TAGGED_THOUGHTS,
}
TEXTS = ["Return the value of the option.", "Close the file.", "user assistant system\n", "[INST] x [/INST] yes"] * 20


def tokenizer_of(shape: Shape) -> Tokenizer:
    """A byte-level BPE with the shape's special tokens, which puts its BOS before texts as the real ones do."""
    backend, settings = train_bpe(TEXTS, 340)
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in shape.special])
    if shape.bos:
        backend.post_processor = processors.Sequence(
            [
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing(
                    single=f"{shape.bos} $A", special_tokens=[(shape.bos, backend.token_to_id(shape.bos))]
                ),
            ]
        )
        settings["bos_token"] = shape.bos
    names = {**settings, "eos_token": shape.eos, "additional_special_tokens": list(shape.special)}
    return Tokenizer(backend, names, shape.template, where="model")
