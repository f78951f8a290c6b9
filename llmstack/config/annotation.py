"""Options of ``llmstack data annotate``: who labels what, and what is sent to people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os.path import abspath
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.data import AnySource
from llmstack.config.document import DocumentConfig
from llmstack.config.endpoint import EndpointOptions
from llmstack.config.markers import Files, Folder
from llmstack.config.named import NameIn, Registered
from llmstack.registry import ANNOTATORS, did_you_mean

Task: TypeAlias = Literal["response", "preference", "class"]

QUEUE = "queue"
"""Whom labels from the queue are by; no annotator may be called so."""

OWN_KEYS = frozenset({"model", "messages", "temperature", "max_tokens", "seed", "n", "stream"})
"""Keys of a request that have an option of their own, or would change what an answer looks like."""

TEMPLATE_FIELDS: dict[Task, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "response": (("prompt",), ()),
    "preference": (("prompt", "answer_a", "answer_b"), ()),
    "class": (("prompt",), ("labels",)),
}
"""Names a template must have, and those it may have besides."""


class AnnotatorConfig(Strict):
    """What every annotator has. Subclass it, or :class:`SamplingConfig`, for an own annotator's options."""

    kind: Annotated[str, NameIn(ANNOTATORS)]
    """Name in the annotator registry."""

    @property
    def num_votes(self) -> int:
        """Labels it gives an item; 0: it is not asked, its labels are there already."""
        return 0


class HumanConfig(AnnotatorConfig):
    """Labels people have written into a file."""

    path: Files
    """JSON Lines; a row is an item with its label, as in the queue, or a record of the kind that is to be made."""
    fields: dict[str, str] = Field(default_factory=dict)
    """Maps our field names to the file's, e.g. ``{prompt: question, label: verdict}``."""


class SamplingConfig(AnnotatorConfig):
    """An annotator that is asked and answers with text."""

    temperature: float | None = Field(default=0.0, ge=0)
    """0 takes the likeliest answer; null leaves it to the server."""
    samples: int = Field(default=1, gt=0)
    """Answers to each item; they share the annotator's one vote."""
    max_tokens: int | None = Field(default=512, gt=0)
    """Longest answer; null leaves it to the server."""

    @property
    def num_votes(self) -> int:
        """Labels it gives an item."""
        return self.samples

    @model_validator(mode="after")
    def _check_samples(self) -> Self:
        if self.samples > 1 and self.temperature == 0:
            text = f"expected 1 because temperature is 0 and all answers would be equal, got {self.samples}. "
            reject(self, {"samples": f"{text}Raise temperature, or write 1."})
        return self


class PriceConfig(Strict):
    """What a million tokens cost, in whatever currency."""

    input: float = Field(ge=0)
    """Tokens of requests."""
    output: float = Field(ge=0)
    """Tokens of answers."""


class EndpointConfig(SamplingConfig, EndpointOptions):
    """A server with OpenAI's chat completions."""

    model: str = Field(min_length=1)
    """Name of the model, as the server knows it."""
    send_seed: bool = True
    """Whether requests have a ``seed``; false for servers that refuse it."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further keys of the request, e.g. ``{top_p: 0.9}``."""
    price_per_million: PriceConfig | None = None
    """Prices, for counting what it costs; null: not counted."""

    @model_validator(mode="after")
    def _check_extra(self) -> Self:
        own = sorted(OWN_KEYS & set(self.extra))
        text = "expected further keys of the request alone, got {}. Remove it; `samples` asks for several answers."
        reject(self, {f"extra.{key}": text.format(key) for key in own})
        return self


class LocalModelConfig(SamplingConfig):
    """A language model in a folder on this machine, asked through its chat template."""

    path: Folder
    """A model folder, e.g. runs/quickstart/policy/final."""
    temperature: float = Field(default=0.0, ge=0)
    """0 takes the likeliest tokens."""
    max_tokens: int = Field(default=128, gt=0)
    """Longest answer; prompt and answer together must fit the model's context."""
    batch_rows: int = Field(default=32, gt=0)
    """Answers written at the same time."""


AnyAnnotator: TypeAlias = Annotated[AnnotatorConfig, Registered(ANNOTATORS, "kind")]
"""Options of any registered annotator."""

AnnotatorName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class PromptConfig(Strict):
    """What automatic annotators are asked."""

    system: str | None = None
    """System message; null: none."""
    template: str | None = None
    """User message with ``{prompt}``; for preferences ``{answer_a}`` and ``{answer_b}`` too, for classes ``{labels}``
    if wanted; ``{{`` is a brace. null takes the task's own."""


class UncertaintyConfig(Strict):
    """What sends an item to people. Items on which votes tie, or that got no label at all, always go there."""

    min_agreement: float | None = Field(default=None, gt=0, le=1)
    """Least share of votes for the winning label; null: a majority is enough."""
    parse_failures: bool = True
    """Whether an answer that could not be read, even when asked again, is enough."""
    flips: bool | None = None
    """Preferences: whether a judge that changes its mind when the answers swap places is enough; null: yes. Such a
    vote never counts for either answer."""
    same: Literal["text", "final_answer", "words"] | None = None
    """Responses: when two are the same vote: as texts but for case and blanks, by their final answer, or to the degree
    (F1) their words overlap; null: text."""
    answer_pattern: str | None = None
    """With final_answer: a regular expression for it; null: what follows the last ####, else the last number."""

    @model_validator(mode="after")
    def _check_pattern(self) -> Self:
        try:
            re.compile(self.answer_pattern or "")
        except re.error as error:
            text = f"expected a regular expression, got {self.answer_pattern!r} ({error}). Correct it."
            reject(self, {"answer_pattern": text})
        return self


class CompareConfig(Strict):
    """The model under which the labels of each source are compared by their perplexity."""

    model: Folder
    """A language model's folder."""


class AnnotateConfig(DocumentConfig):
    """One labelling job, to be run again until its queue is empty."""

    task: Task
    """response: a text that answers; preference: the better of two answers; class: one of ``labels``."""
    data: AnySource
    """What is labelled: prompts or texts; for preferences pairs of answers, whose order says nothing."""
    out: str = Field(min_length=1)
    """Folder of records, queue, cache and report; made when missing."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Of sampled answers and of the overlap."""
    prompt: PromptConfig = PromptConfig()
    """What automatic annotators are asked."""
    labels: tuple[str, ...] = ()
    """class: the allowed labels."""
    annotators: dict[AnnotatorName, AnyAnnotator] = Field(min_length=1)
    """Who labels: name -> options."""
    uncertainty: UncertaintyConfig = UncertaintyConfig()
    """What sends an item to people."""
    queue: str | None = None
    """JSON Lines for people, and from them; null: ``queue.jsonl`` in ``out``."""
    cache: str | None = None
    """SQLite file of all answers, which several jobs may share; null: ``cache.sqlite`` in ``out``."""
    overlap: float = Field(default=0.0, ge=0, le=1)
    """Share of the items labelled by people that automatic annotators are asked too, to measure agreement."""
    compare: CompareConfig | None = None
    """Compare the perplexity of the sources' labels; null: not done."""
    device: Literal["cpu", "ascend"] = "cpu"
    """Where models of this machine run."""
    threads: int | None = Field(default=None, gt=0)
    """CPU threads of such models; null uses every core this process may run on."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = {**self._labels(), **self._template(), **self._uncertainty(), **self._annotators()}
        reject(self, problems)
        return self

    def _labels(self) -> dict[str, str]:
        if self.task != "class":
            text = (
                f"expected none because task is {self.task}, got {len(self.labels)}. Remove it, or write task: class."
            )
            return {"labels": text} if self.labels else {}
        if len(set(self.labels)) < 2 or len(set(self.labels)) < len(self.labels):
            return {"labels": f"expected two or more labels, all different, got {list(self.labels)}. Add or correct."}
        odd = [label for label in self.labels if not label or label != label.strip() or not label.isprintable()]
        text = f"expected labels of one line without blanks around them, got {odd}. Correct them."
        return {"labels": text} if odd else {}

    def _template(self) -> dict[str, str]:
        if self.prompt.template is None:
            return {}
        problem = template_problem(self.prompt.template, *TEMPLATE_FIELDS[self.task])
        return {"prompt.template": problem} if problem else {}

    def _uncertainty(self) -> dict[str, str]:
        rules, problems = self.uncertainty, {}
        if rules.flips is not None and self.task != "preference":
            problems["uncertainty.flips"] = f"expected null because task is {self.task}, got {rules.flips}. Remove it."
        if rules.same is not None and self.task != "response":
            problems["uncertainty.same"] = f"expected null because task is {self.task}, got {rules.same}. Remove it."
        if rules.answer_pattern is not None and rules.same != "final_answer":
            problems["uncertainty.answer_pattern"] = (
                f"expected null because `same` is {rules.same}, got a pattern. Remove it, or write same: final_answer."
            )
        num_votes = sum(annotator.num_votes for annotator in self.annotators.values())
        if rules.min_agreement is not None and num_votes < 2:
            problems["uncertainty.min_agreement"] = (
                f"expected null because an item gets {num_votes} automatic labels, got {rules.min_agreement:g}. "
                "Raise an annotator's samples, add an annotator, or remove it."
            )
        return problems

    def _annotators(self) -> dict[str, str]:
        problems = {}
        if QUEUE in self.annotators:
            problems["annotators.queue"] = "expected another name, got that of the queue. Rename it."
        if self.overlap and not any(annotator.num_votes for annotator in self.annotators.values()):
            text = f"expected 0 because no annotator is automatic, got {self.overlap:g}. Remove it."
            problems["overlap"] = text
        for name, annotator in self.annotators.items():
            if isinstance(annotator, HumanConfig) and abspath(annotator.path) == abspath(self.queue_path):
                text = "expected a file other than the queue, which is read anyway, got the queue. Remove it."
                problems[f"annotators.{name}.path"] = text
        return problems

    @property
    def queue_path(self) -> Path:
        """The file of the queue."""
        return Path(self.queue) if self.queue is not None else Path(self.out, "queue.jsonl")

    @property
    def cache_path(self) -> Path:
        """The file of the answers."""
        return Path(self.cache) if self.cache is not None else Path(self.out, "cache.sqlite")


def template_problem(template: str, needed: Sequence[str], optional: Sequence[str]) -> str:
    """What is wrong with a template.

    Args:
        template: text with ``{names}``; ``{{`` and ``}}`` are braces.
        needed: names it must have.
        optional: names it may have.

    Returns:
        ``expected ..., got .... <fix>.``; empty when nothing is.
    """
    known = (*needed, *optional)
    listed = ", ".join(f"{{{name}}}" for name in known)
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        return f"expected a template with {listed}, got one that cannot be read ({error}). Double a brace that is text."
    names = [name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
             for _, name, form, conversion in pieces if name is not None]  # fmt: skip
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "Double a brace that is text."
            return f"expected no names but {listed}, got {{{name}}}. {hint}"
    missing = [f"{{{name}}}" for name in needed if name not in names]
    return f"expected a template with {listed}, got one without {', '.join(missing)}. Add it." if missing else ""
