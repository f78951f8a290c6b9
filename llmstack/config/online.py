"""Options of the stages that learn from their own answers."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.lora import LoraConfig
from llmstack.config.markers import LanguageModelRef
from llmstack.config.rewards import AnyReward
from llmstack.config.stages import StageConfig

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


class RolloutConfig(StageConfig):
    """A stage whose steps are iterations: answers to a batch of prompts, several updates on them.

    ``batch_rows`` is the answers of one iteration.
    """

    @property
    def longest_row(self) -> int:
        """The longest prompt with the longest answer."""
        return self.prompt_buckets[-1] + self.response_len

    @property
    def step_batches(self) -> int:
        """One batch of prompts; its rollouts are cut into micro-batches later."""
        return 1

    @property
    def loader_rows(self) -> int:
        """Prompts of one iteration."""
        return self.batch_rows // self.samples_per_prompt

    yardsticks: dict[str, AnyReward] = Field(default_factory=dict)
    """Rewards reported at evaluation as ``eval/<name>`` and never trained on."""
    prompt_buckets: tuple[PromptLen, ...] = Field(min_length=1)
    """Prompt lengths P in tokens; each prompt is padded on the left to the smallest that holds it."""
    response_len: int = Field(gt=1)
    """Longest answer R in tokens."""
    samples_per_prompt: int = Field(default=1, gt=0)
    """Answers G to each prompt of an iteration; divides ``batch_rows``."""
    eval_prompts: int = Field(gt=0)
    """Prompts of the evaluation data answered at each evaluation."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature, the same in rollouts, old, new and reference log-probabilities."""
    epochs: int = Field(gt=0)
    """Passes over one iteration's rollouts."""
    minibatches: int = Field(gt=0)
    """Optimizer steps of one pass; divides ``batch_rows``."""

    @model_validator(mode="after")
    def _check_rollouts(self) -> Self:
        problems = {}
        if self.lora is not None and (wrong := _unfit_lora(self.lora)):
            problems["lora"] = " ".join(wrong)
        for key in ("minibatches", "samples_per_prompt"):
            value = getattr(self, key)
            if self.batch_rows % value:
                problems[key] = (
                    f"expected a divisor of batch_rows ({self.batch_rows}), got {value}. Change one of the two."
                )
        if self.batch_rows % self.minibatches == 0 and (rows := self.batch_rows // self.minibatches) % self.accumulate:
            problems["accumulate"] = (
                f"expected a divisor of the rows of a minibatch ({rows}), got {self.accumulate}. Change one of the two."
            )
        if list(self.prompt_buckets) != sorted(set(self.prompt_buckets)):
            fixed = ", ".join(str(length) for length in sorted(set(self.prompt_buckets)))
            problems["prompt_buckets"] = (
                f"expected lengths in rising order, got {list(self.prompt_buckets)}. Write [{fixed}]."
            )
        if taken := sorted({"score", "kl", "length", "finished"} & set(self.yardsticks)):
            problems["yardsticks"] = f"expected names of your own, got {taken}, measured anyway. Choose others."
        reject(self, problems)
        return self


class OnlineConfig(RolloutConfig):
    """A stage that learns from the scores of its answers, held near a reference."""

    reward: AnyReward
    """What scores an answer."""
    reference: LanguageModelRef
    """The stage or folder the KL is measured against."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """The ratio is clipped at 1 - clip_low."""
    clip_high: float = Field(default=0.2, gt=0, lt=1)
    """The ratio is clipped at 1 + clip_high."""
    dual_clip: float | None = Field(default=None, gt=1)
    """Bound c of the dual clip for negative advantages; null is off."""
    entropy_coef: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    max_ratio_kl: float | None = Field(default=None, gt=0)
    """Leave an iteration's remaining minibatches when KL(old || new) per token passes this."""
    importance_cap: float | None = Field(default=None, gt=0)
    """Weigh each token by min(p / p of the sampler, importance_cap); null does not weigh."""
    kl: KlConfig
    """KL to the reference."""


def _unfit_lora(lora: LoraConfig) -> list[str]:
    wrong = []
    if lora.dropout > 0:
        wrong.append(
            f"expected dropout 0 here, got {lora.dropout:g}: old and new log-probabilities must come from the same "
            "network. Set `lora.dropout: 0`."
        )
    if lora.adapter is not None:
        wrong.append(
            f"expected no adapter to start from here, got {lora.adapter}: the reference would be the model without "
            "it. Merge it first (docs/lora.md) and name the merged folder in `init_from`."
        )
    return wrong
