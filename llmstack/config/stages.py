"""Options of the built-in stages."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.blend import BlendConfig
from llmstack.config.data import AnyCorpus, AnySource
from llmstack.config.lora import LoraConfig
from llmstack.config.markers import AnyModelRef, LanguageModelRef, Produces, RewardModelRef
from llmstack.config.named import NameIn, Registered
from llmstack.config.optim import OptimConfig
from llmstack.config.quantity import Budget, Interval
from llmstack.registry import REWARDS, STAGES

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


class RewardSourceConfig(Strict):
    """Base of every reward's options; subclasses add theirs."""

    kind: Annotated[str, NameIn(REWARDS)]
    """Name in the reward registry."""


class ModelRewardConfig(RewardSourceConfig):
    """A trained reward model."""

    from_: RewardModelRef = Field(alias="from")
    """A reward stage's name or a model folder."""


AnyReward: TypeAlias = Annotated[RewardSourceConfig, Registered(REWARDS, "kind")]
"""Options of any registered reward."""

PromptLen: TypeAlias = Annotated[int, Field(gt=0)]


class KlConfig(Strict):
    """How the policy is held near the reference."""

    mode: Literal["fixed", "adaptive"]
    """adaptive: beta follows ``target`` (Ziegler et al. 2019, section 2.2)."""
    beta: float = Field(ge=0)
    """First (or only) weight of the per-token KL in the reward."""
    target: float | None = Field(default=None, gt=0)
    """adaptive: wanted KL of an answer, in nats."""
    horizon: int | None = Field(default=None, gt=0)
    """adaptive: number of answers over which beta may move."""
    ceiling: float = Field(gt=0)
    """The run halts when the mean KL of an answer passes this, in nats."""
    in_loss: float = Field(default=0.0, ge=0)
    """Weight of a KL term inside the loss (k2, whose gradient is that of KL(policy || reference))."""

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        problems = {}
        for key in ("target", "horizon"):
            value = getattr(self, key)
            if self.mode == "adaptive" and value is None:
                problems[key] = (
                    "expected a value because `mode` is adaptive, got nothing. Add it, or set `mode: fixed`."
                )
            if self.mode == "fixed" and value is not None:
                problems[key] = (
                    f"expected nothing because `mode` is fixed, got {value}. Remove it, or set `mode: adaptive`."
                )
        reject(self, problems)
        return self


class CriticConfig(Strict):
    """The value model."""

    init_from: AnyModelRef | None = None
    """A stage's name or a model folder; null takes the policy's ``init_from``."""
    lr: float = Field(gt=0)
    """Its own peak learning rate; the rest is the stage's ``optim``."""
    value_clip: float | None = Field(default=0.2, gt=0)
    """Range the new value may leave the old one by; null does not clip."""
    warmup_iterations: int = Field(default=0, ge=0)
    """First iterations in which only the critic learns."""


class PpoConfig(StageConfig):
    """PPO from a reward, with KL to a reference.

    ``batch_rows`` is the rollouts of one iteration; a step is an iteration.
    """

    @property
    def longest_row(self) -> int:
        """The longest prompt with the longest answer."""
        return self.prompt_buckets[-1] + self.response_len

    @property
    def step_batches(self) -> int:
        """One batch of prompts; its rollouts are cut into micro-batches later."""
        return 1

    reward: AnyReward
    """What scores an answer."""
    reference: LanguageModelRef
    """The stage or folder the KL is measured against."""
    yardsticks: dict[str, AnyReward] = Field(default_factory=dict)
    """Rewards reported at evaluation as ``eval/<name>`` and never trained on."""
    prompt_buckets: tuple[PromptLen, ...] = Field(min_length=1)
    """Prompt lengths P in tokens; each prompt is padded on the left to the smallest that holds it."""
    response_len: int = Field(gt=1)
    """Longest answer R in tokens."""
    eval_prompts: int = Field(gt=0)
    """Prompts of the evaluation data answered at each evaluation."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature, the same in rollouts, old, new and reference log-probabilities."""
    epochs: int = Field(gt=0)
    """Passes over one iteration's rollouts."""
    minibatches: int = Field(gt=0)
    """Optimizer steps of one pass; divides ``batch_rows``."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """GAE's lambda."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """The ratio is clipped at 1 - clip_low."""
    clip_high: float = Field(default=0.2, gt=0)
    """The ratio is clipped at 1 + clip_high."""
    dual_clip: float | None = Field(default=None, gt=1)
    """Bound c of the dual clip for negative advantages; null is off."""
    entropy_coef: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    whiten_advantages: bool = True
    """Mean 0 and variance 1 over all real tokens of the iteration."""
    truncated: Literal["bootstrap", "penalty"] = "bootstrap"
    """An answer cut off by ``response_len``: continue it by its value, or score it as ``missing_eos_score``."""
    missing_eos_score: float | None = None
    """penalty: replaces the score of a cut-off answer."""
    max_ratio_kl: float | None = Field(default=None, gt=0)
    """Leave an iteration's remaining minibatches when KL(old || new) per token passes this."""
    kl: KlConfig
    """KL to the reference."""
    critic: CriticConfig
    """The value model."""

    @model_validator(mode="after")
    def _check_iteration(self) -> Self:
        problems = {}
        if self.lora is not None and (wrong := _unfit_for_ppo(self.lora)):
            problems["lora"] = " ".join(wrong)
        if self.batch_rows % self.minibatches:
            problems["minibatches"] = (
                f"expected a divisor of batch_rows ({self.batch_rows}), got {self.minibatches}. Change one of the two."
            )
        if list(self.prompt_buckets) != sorted(set(self.prompt_buckets)):
            fixed = ", ".join(str(length) for length in sorted(set(self.prompt_buckets)))
            problems["prompt_buckets"] = (
                f"expected lengths in rising order, got {list(self.prompt_buckets)}. Write [{fixed}]."
            )
        if self.truncated == "penalty" and self.missing_eos_score is None:
            problems["missing_eos_score"] = (
                "expected a score because `truncated` is penalty, got nothing. Add it, e.g. -1.0."
            )
        if self.truncated != "penalty" and self.missing_eos_score is not None:
            problems["missing_eos_score"] = (
                f"expected nothing because `truncated` is {self.truncated}, got {self.missing_eos_score:g}. "
                "Remove it, or set `truncated: penalty`."
            )
        if taken := sorted({"score", "kl", "length", "finished"} & set(self.yardsticks)):
            problems["yardsticks"] = f"expected names of your own, got {taken}, measured anyway. Choose others."
        reject(self, problems)
        return self


def _unfit_for_ppo(lora: LoraConfig) -> list[str]:
    wrong = []
    if lora.dropout > 0:
        wrong.append(
            f"expected dropout 0 for ppo, got {lora.dropout:g}: old and new log-probabilities must come from the same "
            "network. Set `lora.dropout: 0`."
        )
    if lora.adapter is not None:
        wrong.append(
            f"expected no adapter to start from for ppo, got {lora.adapter}: the reference would be the model without "
            "it. Merge it first (docs/lora.md) and name the merged folder in `init_from`."
        )
    return wrong
