"""Options of the rewards that are rules."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import reject
from llmstack.config.regexes import RegexText
from llmstack.config.rewards import RewardSourceConfig


class JudgedConfig(RewardSourceConfig):
    """A rule that an answer keeps or breaks."""

    right: float = 1.0
    """Score of an answer that keeps the rule."""
    wrong: float = 0.0
    """Score of another."""


class ExactMatchConfig(JudgedConfig):
    """The answer is the reference answer."""

    extract: RegexText | None = None
    """What of the answer is compared: the last match, the first group of it when there is one; null: all of it."""
    ignore_space: bool = True
    """Spaces at the ends, and how many are between words."""
    ignore_case: bool = False
    """Upper and lower case."""
    ignore_punctuation: bool = False
    """Punctuation."""
    ignore_articles: bool = False
    """a, an, the."""
    unicode_form: Literal["NFC", "NFKC"] | None = "NFC"
    """Unicode form both are brought to; NFKC makes full-width letters and ligatures ordinary ones."""


class NumericAnswerConfig(JudgedConfig):
    """The answer's number is the reference answer's."""

    find: tuple[Literal["boxed", "marker", "last"], ...] = Field(default=("boxed", "marker", "last"), min_length=1)
    """Where the number is looked for, the first place that has one counts. boxed: the last ``\\boxed{}``; marker: the
    first number behind the last match of ``marker``; last: the last number."""
    marker: RegexText = r"(?i)####|\banswer\s*(?:is|:|=)"
    """What stands in front of a final answer."""
    abs_tolerance: float = Field(default=1e-6, ge=0)
    """Difference up to which numbers are equal."""
    rel_tolerance: float = Field(default=0.0, ge=0)
    """The same, relative to the reference answer; the larger of both counts."""
    expressions: bool = False
    """Also work out sums, powers, roots and fractions in a box, behind a marker on its line, or in an answer that is
    nothing else; letters are variables, and expressions are equal when they are at several points."""


class FormatRegexConfig(JudgedConfig):
    """The answer has a form."""

    pattern: RegexText
    """The form."""
    match: Literal["full", "search"] = "full"
    """full: all of the answer; search: anywhere in it."""
    flags: tuple[Literal["ignore_case", "multiline", "dotall"], ...] = ()
    """How the pattern is read; dotall lets a dot match line ends."""


class LengthShapingConfig(RewardSourceConfig):
    """A penalty for an answer's length."""

    mode: Literal["overlong", "target"]
    """overlong: above a length; target: away from a length."""
    unit: Literal["tokens", "words", "characters"] = "tokens"
    """What is counted; the token that ends an answer counts."""
    max_length: int | None = Field(default=None, gt=0)
    """overlong: the penalty is -1 from here on; mostly the stage's ``response_len``."""
    cushion: int | None = Field(default=None, gt=0)
    """overlong: over so many units before ``max_length`` the penalty grows from 0."""
    target: int | None = Field(default=None, gt=0)
    """target: wanted length."""
    slack: int = Field(default=0, ge=0)
    """target: distance that costs nothing."""

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        own = {"overlong": ("max_length", "cushion"), "target": ("target",)}
        problems = {
            key: f"expected a length because `mode` is {self.mode}, got nothing. Add `{key}:`."
            for key in own[self.mode]
            if getattr(self, key) is None
        }
        other = "target" if self.mode == "overlong" else "overlong"
        foreign = [key for key in own[other] if getattr(self, key) is not None]
        foreign += ["slack"] if self.mode == "overlong" and self.slack else []
        problems |= {
            key: f"expected nothing because `mode` is {self.mode}, got {getattr(self, key)}. Remove it, or set `mode: "
            f"{other}`."
            for key in foreign
        }
        if self.max_length and self.cushion and self.cushion > self.max_length:
            problems["cushion"] = f"expected at most max_length ({self.max_length}), got {self.cushion}. Lower it."
        reject(self, problems)
        return self


class RepetitionConfig(RewardSourceConfig):
    """A penalty for repeating oneself."""

    ngram: int = Field(default=3, gt=0)
    """Words of an n-gram."""
