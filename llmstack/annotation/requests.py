"""What annotators are asked, what they answer, and how the answer is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from llmstack.annotation.items import Item
from llmstack.config.annotation import PromptConfig, Task
from llmstack.data.records import Message
from llmstack.evaluation.extract import Extractor

TEMPLATES: dict[Task, str] = {
    "response": "{prompt}",
    "preference": (
        "Below are a request and two answers to it. Which answer is the better one?\n\n"
        "Request:\n{prompt}\n\nAnswer A:\n{answer_a}\n\nAnswer B:\n{answer_b}\n\n"
        "End with a line that says `Label: A` or `Label: B`."
    ),
    "class": (
        "Give the text below one of these labels: {labels}.\n\nText:\n{prompt}\n\n"
        "End with a line that says `Label: ` and the label."
    ),
}
"""What is asked when the configuration has no template of its own."""

_MARK = "Label:"
_SIDES = ("A", "B")


@dataclass(frozen=True)
class Request:
    """One question to an annotator.

    Attributes:
        messages: the conversation so far; the user's turn is last.
        sample: which of several answers to the same question it is.
        where: place of the item in the data.
    """

    messages: tuple[Message, ...]
    sample: int = 0
    where: str = ""


@dataclass(frozen=True)
class Reply:
    """What came back.

    Attributes:
        text: the answer; empty when there is none.
        problem: why it is no whole answer; empty when it is one.
        input_tokens: tokens of the request; None: not told.
        output_tokens: tokens of the answer; None: not told.
    """

    text: str
    problem: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


class Unreadable(ValueError):
    """An answer without a label that can be read; says what was expected and what was found."""


class Phrasing:
    """Turns items into requests, and answers into labels.

    Args:
        task: what kind of label is wanted.
        prompt: template and system message.
        labels: class: the allowed ones.
        extractor: response: finds the final answer every response must have; None: none is needed.
    """

    def __init__(
        self, task: Task, prompt: PromptConfig, labels: Sequence[str] = (), extractor: Extractor | None = None
    ) -> None:
        self.task, self._prompt, self._extractor = task, prompt, extractor
        self._allowed = _SIDES if task == "preference" else tuple(labels)
        self._template = TEMPLATES[task] if prompt.template is None else prompt.template

    @property
    def orders(self) -> tuple[bool, ...]:
        """Whether the answers swap places, for each question about an item: judges lean to a place of their own."""
        return (False, True) if self.task == "preference" else (False,)

    def request(self, item: Item, *, sample: int = 0, swapped: bool = False) -> Request:
        """The question about an item.

        Args:
            item: the item.
            sample: which of several answers is wanted.
            swapped: answer b is called A.
        """
        a, b = item.answers or ("", "")
        values = {
            "prompt": item.prompt,
            "answer_a": b if swapped else a,
            "answer_b": a if swapped else b,
            "labels": ", ".join(self._allowed),
        }
        system = () if self._prompt.system is None else (Message("system", self._prompt.system),)
        return Request((*system, Message("user", fill(self._template, values))), sample, item.where)

    def again(self, request: Request, reply: Reply, problem: str) -> Request | None:
        """The question after an answer that could not be read.

        Args:
            request: the question that was asked.
            reply: its answer.
            problem: why it could not be read.

        Returns:
            The question; None when asking again makes no sense: a response would answer the reminder.
        """
        if self.task == "response" or not reply.text.strip():
            return None
        reminder = (
            f"No label could be read from that: {problem}. "
            f"Reply with nothing but the line `{_MARK} ` and one of: {', '.join(self._allowed)}."
        )
        messages = (*request.messages, Message("assistant", reply.text), Message("user", reminder))
        return Request(messages, request.sample, request.where)

    def read(self, reply: Reply, *, swapped: bool = False) -> str:
        """The label an answer gives.

        A class or a side stands on the last line that has text, alone or after ``Label:``. A response is the whole
        answer.

        Args:
            reply: the answer.
            swapped: whether the answers had swapped places.

        Returns:
            The label; for preferences ``a`` or ``b`` as the item calls them.

        Raises:
            Unreadable: there is none.
        """
        if reply.problem:
            raise Unreadable(reply.problem)
        text = reply.text.strip()
        if not text:
            raise Unreadable("expected an answer, got an empty one")
        if self.task == "response":
            if self._extractor is not None and self._extractor.find(text) is None:
                raise Unreadable("expected a final answer in it, got none")
            return text
        found = text.split("\n")[-1].strip().removeprefix(_MARK).strip()
        if found not in self._allowed:
            shown = found if len(found) <= 40 else f"{found[:37]}..."
            raise Unreadable(f"expected one of {', '.join(self._allowed)} on the last line, got {shown!r}")
        if self.task == "class":
            return found
        return "ab"[_SIDES.index(found) ^ swapped]


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values into a template; braces inside them stay what they are.

    Args:
        template: checked by :func:`llmstack.config.annotation.template_problem`.
        values: name -> text.
    """
    pieces = Formatter().parse(template)
    return "".join(text + (values[name] if name is not None else "") for text, name, _, _ in pieces)
