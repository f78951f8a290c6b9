"""Options of ``llmstack data clean`` and of each built-in cleaning step."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.data import AnySource
from llmstack.config.document import DocumentConfig
from llmstack.config.markers import Files
from llmstack.config.named import NameIn, Registered
from llmstack.registry import CLEANERS

Ratio: TypeAlias = Annotated[float, Field(ge=0, le=1)]
"""A share between 0 and 1."""

LanguageCode: TypeAlias = Annotated[str, Field(pattern="^[a-z]{2,3}$")]
"""``en``, ``de``, ``zh`` ..."""


class StepConfig(Strict):
    """What every cleaning step has. Subclass it for an own step's options."""

    kind: Annotated[str, NameIn(CLEANERS)]
    """Name in the table of cleaning steps."""


AnyStep: TypeAlias = Annotated[StepConfig, Registered(CLEANERS, "kind")]
"""Options of any registered cleaning step."""


class NormaliseConfig(StepConfig):
    """One way of writing the same text."""

    form: Literal["NFC", "NFKC"] | None = "NFC"
    """Unicode normal form; NFKC also replaces ligatures, full-width letters and the like. null leaves it."""
    repair_encoding: bool = True
    """Undo UTF-8 that was once read in another encoding, as in ``schÃ¶n``."""
    remove_control_characters: bool = True
    """Remove what is invisible and no white space; line ends of all kinds become ``\\n``."""
    tidy_whitespace: bool = True
    """Plain spaces, none at a line's end, at most one blank line in a row; indentation stays."""


class LengthConfig(StepConfig):
    """Bounds on the size of a document; words are what white space separates. null: no bound."""

    min_chars: int | None = Field(default=None, ge=0)
    """Fewest characters."""
    max_chars: int | None = Field(default=None, gt=0)
    """Most characters."""
    min_words: int | None = Field(default=None, ge=0)
    """Fewest words."""
    max_words: int | None = Field(default=None, gt=0)
    """Most words."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        problems = {
            f"max_{unit}": f"expected at least min_{unit} ({low}), got {high}. Raise it, or lower min_{unit}."
            for unit, low, high in (
                ("chars", self.min_chars, self.max_chars),
                ("words", self.min_words, self.max_words),
            )
            if low is not None and high is not None and high < low
        }
        if all(bound is None for bound in (self.min_chars, self.max_chars, self.min_words, self.max_words)):
            problems["min_words"] = "expected at least one bound, got none. Set one, or remove the step."
        reject(self, problems)
        return self


class LanguageConfig(StepConfig):
    """The language of a document, as the fastText model lid.176 sees it."""

    keep: tuple[LanguageCode, ...] = Field(min_length=1)
    """ISO 639 codes of the languages to keep, e.g. ``[en, de]``."""
    min_score: Ratio = 0.65
    """Least probability of the most likely language."""


class GopherQualityConfig(StepConfig):
    """Rules of Rae et al. 2021, appendix A.1.1, "Quality Filtering". null turns a rule off."""

    min_words: int | None = Field(default=50, ge=0)
    """Fewest words; words are what white space separates."""
    max_words: int | None = Field(default=100_000, gt=0)
    """Most words."""
    min_mean_word_chars: float | None = Field(default=3.0, ge=0)
    """Shortest mean length of a word."""
    max_mean_word_chars: float | None = Field(default=10.0, gt=0)
    """Longest mean length of a word."""
    max_symbols_per_word: float | None = Field(default=0.1, ge=0)
    """Most hash signs, and most ellipses, divided by the number of words."""
    max_bullet_line_ratio: Ratio | None = 0.9
    """Largest share of lines that start with a bullet point."""
    max_ellipsis_line_ratio: Ratio | None = 0.3
    """Largest share of lines that end with an ellipsis."""
    min_alphabetic_word_ratio: Ratio | None = 0.8
    """Smallest share of words with a letter in them."""
    min_stop_words: int | None = Field(default=2, ge=0)
    """How many of ``stop_words`` must occur."""
    stop_words: tuple[str, ...] = ("the", "be", "to", "of", "and", "that", "have", "with")
    """Words of which prose has some; those of the paper are English."""


class GopherRepetitionConfig(StepConfig):
    """Rules of Rae et al. 2021, appendix A.1.1, "Repetition Removal", limits of its table A1. null turns one off."""

    max_duplicate_line_ratio: Ratio | None = 0.30
    """Largest share of lines that occurred before in the document."""
    max_duplicate_paragraph_ratio: Ratio | None = 0.30
    """The same of paragraphs, which blank lines separate."""
    max_duplicate_line_char_ratio: Ratio | None = 0.20
    """Largest share of characters in such lines."""
    max_duplicate_paragraph_char_ratio: Ratio | None = 0.20
    """Largest share of characters in such paragraphs."""
    max_top_ngram_char_ratio: dict[int, Ratio] = Field(default_factory=lambda: {2: 0.20, 3: 0.18, 4: 0.16})
    """n -> largest share of characters in the most frequent n-gram of words; replaces the whole table."""
    max_duplicate_ngram_char_ratio: dict[int, Ratio] = Field(
        default_factory=lambda: {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
    )
    """n -> largest share of characters in any repeated n-gram of words; replaces the whole table."""

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        reject(
            self,
            {
                key: f"expected n-grams of 1 or more words, got {min(table)}. Remove that entry."
                for key in ("max_top_ngram_char_ratio", "max_duplicate_ngram_char_ratio")
                if (table := getattr(self, key)) and min(table) < 1
            },
        )
        return self


class C4Config(StepConfig):
    """Rules of Raffel et al. 2020, section 2.2. false or null turns one off."""

    terminal_punctuation: bool = True
    """Keep only lines that end in a full stop, exclamation or question mark, or closing quotation mark."""
    min_line_words: int | None = Field(default=5, gt=0)
    """Keep only lines of at least so many words."""
    javascript_lines: bool = True
    """Remove lines with the word Javascript."""
    policy_lines: bool = True
    """Remove lines about cookies, terms of use and privacy."""
    citations: bool = True
    """Remove markers such as ``[1]`` and ``[citation needed]``."""
    lorem_ipsum: bool = True
    """Drop documents with this phrase."""
    curly_brackets: bool = True
    """Drop documents with ``{``; turn it off when code is wanted."""
    bad_words: Files | None = None
    """Drop documents with a word or phrase of this file, one a line; none is shipped."""
    min_sentences: int | None = Field(default=3, gt=0)
    """Drop documents that are left with fewer sentences."""


class RepeatedLinesConfig(StepConfig):
    """Lines that say nothing new; lines are compared without case and spacing."""

    within_document: bool = True
    """Keep only the first of equal lines of a document."""
    max_documents: int | None = Field(default=10, gt=0)
    """Remove lines found in more documents than this everywhere; null looks at single documents alone."""
    min_chars: int = Field(default=20, gt=0)
    """Shorter lines stay wherever they are."""

    @model_validator(mode="after")
    def _check_anything(self) -> Self:
        if not self.within_document and self.max_documents is None:
            problem = "expected a number because `within_document` is false, got null. Set it, or remove the step."
            reject(self, {"max_documents": problem})
        return self


class RepeatedSentencesConfig(StepConfig):
    """Spans of sentences that occurred before in the corpus (Raffel et al. 2020, section 2.2: three)."""

    sentences: int = Field(default=3, gt=0)
    """Sentences of a span."""


class ExactDuplicatesConfig(StepConfig):
    """Documents equal to an earlier one."""

    ignore: tuple[Literal["case", "whitespace", "punctuation"], ...] = ("case", "whitespace")
    """Differences that do not count."""


class NearDuplicatesConfig(StepConfig):
    """Documents much like an earlier one, found by MinHash (Broder 1997) and banding."""

    threshold: float = Field(default=0.8, gt=0, le=1)
    """Least Jaccard similarity of two documents' shingles, as their signatures estimate it."""
    shingle_words: int = Field(default=5, gt=0)
    """Words of a shingle."""
    num_perm: int = Field(default=128, ge=2, le=4096)
    """Entries of a signature: 4 bytes of memory each, for each document."""
    bands: int | None = Field(default=None, ge=2)
    """Groups of entries; two documents are compared when they agree in one. null: chosen for ``threshold``."""
    rows: int | None = Field(default=None, gt=0)
    """Entries of a band; null: chosen for ``threshold``."""

    @model_validator(mode="after")
    def _check_bands(self) -> Self:
        problems = {}
        if (self.bands is None) != (self.rows is None):
            missing = "bands" if self.bands is None else "rows"
            problems[missing] = "expected bands and rows, or neither, got one of them. Add it."
        elif self.bands is not None and self.rows is not None and self.bands * self.rows > self.num_perm:
            got = f"{self.bands} x {self.rows}"
            problems["bands"] = f"expected bands x rows of at most num_perm ({self.num_perm}), got {got}. Lower one."
        reject(self, problems)
        return self


class DecontaminateConfig(StepConfig):
    """Documents that share n-grams of words with evaluation sets (Brown et al. 2020, appendix C)."""

    against: dict[str, AnySource] = Field(min_length=1)
    """name -> source of an evaluation set; each text of a record is looked for by itself."""
    ngram_words: int = Field(default=13, gt=0)
    """Words that must agree in a row, without case and punctuation; shorter texts are looked for whole."""
    min_words: int = Field(default=8, gt=0)
    """Evaluation texts of fewer words are not looked for: they would be found everywhere. The report counts them."""
    min_matches: int = Field(default=1, gt=0)
    """How many different n-grams must be found in a document."""

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.min_words > self.ngram_words:
            problem = f"expected at most ngram_words ({self.ngram_words}), got {self.min_words}. Lower it."
            reject(self, {"min_words": problem})
        return self


class PersonalDataConfig(StepConfig):
    """What identifies a person; each key is the text put in its place, null leaves that kind alone."""

    email: str | None = "<EMAIL>"
    """E-mail addresses."""
    phone: str | None = "<PHONE>"
    """Phone numbers that can exist: with +, or as they are written in ``phone_regions``."""
    phone_regions: tuple[Annotated[str, Field(pattern="^[A-Z]{2}$")], ...] = ("US", "GB")
    """Countries whose own way of writing numbers counts."""
    ip: str | None = "<IP>"
    """Public IPv4 and IPv6 addresses."""
    card: str | None = "<CARD>"
    """Payment card numbers with a right Luhn digit."""
    iban: str | None = "<IBAN>"
    """International bank account numbers with right check digits."""

    @model_validator(mode="after")
    def _check_anything(self) -> Self:
        if all(text is None for text in (self.email, self.phone, self.ip, self.card, self.iban)):
            reject(self, {"email": "expected at least one kind to mask, got null for all. Remove the step."})
        return self


class SliceConfig(Strict):
    """Every ``of``-th document, starting with number ``index``, so that several jobs share a corpus."""

    index: int = Field(ge=0)
    """Which slice, from 0."""
    of: int = Field(gt=0)
    """How many slices there are."""

    @model_validator(mode="after")
    def _check_index(self) -> Self:
        if self.index >= self.of:
            reject(self, {"index": f"expected less than `of` ({self.of}), got {self.index}. Count from 0."})
        return self


class ReportConfig(Strict):
    """How much of the text the report shows."""

    examples: int = Field(default=3, ge=0)
    """Examples of each reason, and clusters of duplicates."""
    excerpt_chars: int = Field(default=120, gt=0)
    """Longest example."""


class CleanConfig(DocumentConfig):
    """A cleaning job."""

    data: AnySource
    """The text to clean."""
    out: str = Field(min_length=1)
    """Folder to make; must be new or empty."""
    steps: tuple[AnyStep, ...] = Field(min_length=1)
    """What is done, in this order."""
    shards: int | None = Field(default=None, gt=0)
    """Write so many compressed files ``part-00000.jsonl.zst``; null writes one ``data.jsonl``."""
    slice: SliceConfig | None = None
    """Clean only a part of the documents; null cleans all."""
    report: ReportConfig = Field(default_factory=ReportConfig)
    """How much of the text the report shows."""
    workers: int | None = Field(default=None, gt=0)
    """Processes; null: one a processor. The result is the same for any number."""
    seed: int = Field(default=1, ge=0)
    """Seed of the source and of the signatures."""
