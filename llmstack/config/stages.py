"""Options of the built-in stages."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.blend import BlendConfig
from llmstack.config.data import AnyCorpus, AnySource
from llmstack.config.lora import LoraConfig
from llmstack.config.markers import LanguageModelRef, Produces
from llmstack.config.named import NameIn
from llmstack.config.optim import OptimConfig
from llmstack.config.quantity import Budget, Interval
from llmstack.registry import STAGES

RowLen: TypeAlias = Annotated[int, Field(gt=1)]


class SampleConfig(Strict):
    """Text the model is asked to write at each evaluation, kept in ``samples.jsonl``."""

    prompts: int = Field(ge=0)
    """How many prompts of the evaluation data are answered (0: none)."""
    max_new_tokens: int = Field(gt=0)
    """Longest answer in tokens."""
    temperature: float = Field(ge=0)
    """0 is greedy."""


class StageConfig(Strict):
    """What every stage has. Subclass it for an own stage's options."""

    produces: ClassVar[Produces] = "language_model"
    """What a later stage finds when it names this one."""

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row a model of the stage reads; 0 when the stage does not say."""
        return 0

    @property
    def step_rows(self) -> int | None:
        """Rows of one optimizer step, when nothing but this product of ``batch_rows`` and ``accumulate`` counts.

        A run may then go on with other micro-batches. None: each of the two counts.
        """
        return None

    @property
    def step_batches(self) -> int:
        """Batches of the training data that one step reads."""
        return self.accumulate

    @property
    def steps_are_alike(self) -> bool:
        """Whether every step reads as many batches as ``step_batches`` says."""
        return True

    @property
    def loader_rows(self) -> int:
        """Rows of the data in a batch."""
        return self.batch_rows

    kind: Annotated[str, NameIn(STAGES)]
    """Name in the stage registry."""
    init_from: LanguageModelRef | None = None
    """An earlier stage's name or a model folder; null starts from random weights."""
    data: AnyCorpus
    """Training data."""
    eval_data: AnySource
    """Data never trained on."""
    budget: Budget
    """How long to train: tokens, steps or epochs."""
    batch_rows: int = Field(gt=0)
    """Rows B of one micro-batch."""
    accumulate: int = Field(default=1, gt=0)
    """Micro-batches summed before one optimizer step."""
    optim: OptimConfig
    """The recipe's ``optim`` with this stage's own keys on top."""
    lora: LoraConfig | None = None
    """Train low-rank adapters on the frozen model of ``init_from``; null trains all of it."""
    log_every: Interval
    """Metrics line every so many steps."""
    eval_every: Interval
    """Evaluation every so many steps, besides the first and the last."""
    save_every: Interval
    """Checkpoint every so many steps, besides the last."""
    keep_checkpoints: int = Field(default=2, gt=0)
    """How many of the newest complete checkpoints stay."""
    final_dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """How weights are stored in the model the stage hands on; later stages start from the rounded ones."""
    max_skipped_steps: int = Field(default=10, ge=0)
    """The run stops when more steps than this in a row had a non-finite gradient."""
    log_rows: bool = True
    """Write which rows of the data each step read into ``rows.jsonl``."""

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        if self.budget.unit == "epochs" and isinstance(self.data, BlendConfig):
            why = "the parts of a blend end their epochs at different times"
            reject(self, {"budget": f"expected tokens or steps, got {self.budget}: {why}. Write how many tokens."})
        return self

    @model_validator(mode="after")
    def _check_lora(self) -> Self:
        if self.lora is not None and self.init_from is None:
            reject(self, {"lora": "expected `init_from` with it, got adapters on random weights. Name a model there."})
        return self


class RowStageConfig(StageConfig):
    """A stage that trains on packed rows of tokens."""

    seq_len: int = Field(gt=1)
    """Tokens T in a row."""

    @property
    def longest_row(self) -> int:
        """T."""
        return self.seq_len

    @property
    def step_rows(self) -> int:
        """Rows of one optimizer step."""
        return self.batch_rows * self.accumulate

    packing: Literal["best_fit", "sequential", "none"] = "best_fit"
    """How documents fill rows. best_fit: whole ones, the fullest row that has room; sequential: one after the other,
    plain text cut wherever a row is full; none: a row each."""
    z_loss: float = Field(default=0.0, ge=0)
    """Weight of the squared log-partition term."""
    eval_batches: int = Field(gt=0)
    """Batches of the evaluation data measured at each evaluation."""
    samples: SampleConfig
    """Answers kept at each evaluation."""


class PretrainConfig(RowStageConfig):
    """Next-token prediction on every token of packed documents."""


class SftConfig(RowStageConfig):
    """Next-token prediction on the assistant's tokens."""

    max_untrained_ratio: float = Field(default=0.05, ge=0, le=1)
    """Share of rows with nothing to train (cut off or too long) above which the run is refused."""


class RewardConfig(StageConfig):
    """Bradley-Terry reward model on preference pairs."""

    produces: ClassVar[Produces] = "reward_model"

    seq_len: int = Field(gt=1)
    """Longest prompt and answer together, in tokens."""

    @property
    def longest_row(self) -> int:
        """The longest pair."""
        return self.seq_len

    @property
    def step_rows(self) -> int:
        """Rows of one optimizer step."""
        return self.batch_rows * self.accumulate

    length_buckets: tuple[RowLen, ...] | None = None
    """Row lengths in rising order, the last ``seq_len``; a batch of pairs is padded to the smallest that holds it. Each
    is a graph of its own. null: ``seq_len`` alone."""

    max_dropped_ratio: float = Field(default=0.05, ge=0, le=1)
    """Share of pairs that cannot be used (equal answers, or an answer that fills the row) above which the run is
    refused."""
    centering: float = Field(default=0.0, ge=0)
    """Weight of (score_chosen + score_rejected)^2, which keeps scores near zero."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """Share of pairs that are taken to be the wrong way round, for labels that are not sure."""
    eval_batches: int = Field(gt=0)
    """Batches of the evaluation pairs measured at each evaluation."""

    @model_validator(mode="after")
    def _check_buckets(self) -> Self:
        buckets = self.length_buckets
        if buckets is not None and list(buckets) != sorted({*buckets, self.seq_len}):
            fixed = sorted({*(length for length in buckets if length < self.seq_len), self.seq_len})
            expected = f"expected lengths in rising order up to seq_len ({self.seq_len})"
            reject(self, {"length_buckets": f"{expected}, got {list(buckets)}. Write {fixed}."})
        return self
