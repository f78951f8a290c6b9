"""The architecture of a decoder, in Hugging Face's names so that it is also a ``config.json``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.markers import Folder
from llmstack.config.named import NameIn
from llmstack.errors import UserError
from llmstack.registry import MODELS, PROVIDERS

_OPTIONS_OF = {
    "linear": frozenset(),
    "llama3": frozenset({"original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}),
    "yarn": frozenset({"original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "truncate"}),
}
_NEEDED = {"original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}


class RopeScaling(Strict):
    """How the rotary frequencies are stretched to a longer context."""

    rope_type: Literal["linear", "llama3", "yarn"]
    """linear: all alike; llama3: by wavelength; yarn: by parts, with a temperature."""
    factor: float = Field(ge=1)
    """How many times longer the context becomes."""
    original_max_position_embeddings: int | None = Field(default=None, gt=0)
    """Context before stretching, in tokens (llama3, yarn)."""
    low_freq_factor: float | None = Field(default=None, gt=0)
    """Waves with fewer turns in the old context are stretched (llama3)."""
    high_freq_factor: float | None = Field(default=None, gt=0)
    """Waves with more turns in the old context stay (llama3)."""
    attention_factor: float | None = Field(default=None, gt=0)
    """What cosines and sines are multiplied by; null: 0.1 ln(factor) + 1 (yarn)."""
    beta_fast: float = Field(default=32.0, gt=0)
    """Channels with more turns in the old context stay (yarn)."""
    beta_slow: float = Field(default=1.0, gt=0)
    """Channels with fewer turns are stretched (yarn)."""
    truncate: bool = True
    """Whether the ramp between them begins and ends on whole channels (yarn)."""

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        allowed = _OPTIONS_OF[self.rope_type]
        problems = {
            key: f"expected no {key} for rope_type {self.rope_type}, got {getattr(self, key)}. Remove it."
            for key in sorted(self.model_fields_set - allowed - {"rope_type", "factor"})
            if getattr(self, key) is not None
        }
        for key in sorted(allowed & _NEEDED):
            if getattr(self, key) is None:
                problems[key] = f"expected a number for rope_type {self.rope_type}, got null. Set it."
        reject(self, problems)
        low, high = self.low_freq_factor, self.high_freq_factor
        if low is not None and high is not None and low >= high:
            reject(self, {"high_freq_factor": f"expected more than low_freq_factor ({low}), got {high}. Raise it."})
        return self


class ModelConfig(Strict):
    """A pre-norm decoder-only transformer (RMSNorm, rotary positions, grouped-query attention, SwiGLU)."""

    family: Annotated[str, NameIn(MODELS)]
    """Name in the model registry, e.g. ``llama``."""
    provider: Annotated[str, NameIn(PROVIDERS)] = "native"
    """Whose network computes: native, or mindformers. Weights, folders and results are the same."""
    hidden_size: int = Field(gt=0)
    """Width D of the residual stream."""
    num_hidden_layers: int = Field(gt=0)
    """Decoder blocks L."""
    num_attention_heads: int = Field(gt=0)
    """Query heads H."""
    num_key_value_heads: int = Field(gt=0)
    """Key/value heads K; divides H."""
    head_dim: int = Field(gt=0, multiple_of=2)
    """Width E of one head (even: rotary positions turn pairs)."""
    intermediate_size: int = Field(gt=0)
    """Width F of the SwiGLU feed-forward."""
    vocab_size: int | None = Field(gt=0)
    """Vocabulary V; null takes the tokenizer's size."""
    max_position_embeddings: int = Field(gt=0)
    """Longest context in tokens."""
    rope_theta: float = Field(gt=0)
    """Base of the rotary frequencies."""
    rms_norm_eps: float = Field(gt=0)
    """Added to the mean square in RMSNorm."""
    tie_word_embeddings: bool
    """True: the head is the embedding matrix, one Parameter."""
    initializer_range: float = Field(gt=0)
    """Standard deviation of a normal initial weight; residual outputs are divided by sqrt(2 L)."""
    rope_scaling: RopeScaling | None = None
    """Stretches the rotary frequencies to a longer context; null leaves them plain."""
    sliding_window: int | None = Field(default=None, gt=0)
    """Tokens a query sees, itself included; null: all before it."""
    attention_bias: bool = False
    """Whether queries, keys and values have a bias."""
    attention_out_bias: bool = False
    """Whether attention's output projection has one."""
    mlp_bias: bool = False
    """Whether the feed-forward's projections have one."""
    qk_norm: bool = False
    """Whether each query and key head is normalised before it is turned."""

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if heads % kv_heads:
            divisors = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
            reject(
                self,
                {
                    "num_key_value_heads": f"expected a divisor of num_attention_heads ({heads}), got {kv_heads}. "
                    f"Choose one of {divisors}."
                },
            )
        return self


class ModelFolderConfig(Strict):
    """A model somebody has trained already."""

    from_: Folder = Field(alias="from")
    """A Hugging Face model folder; its tokenizer serves too, stages without ``init_from`` start from its weights."""
    provider: Annotated[str, NameIn(PROVIDERS)] = "native"
    """Whose network computes: native, or mindformers. Weights, folders and results are the same."""


def vocab_size_of(config: ModelConfig) -> int:
    """The size of the vocabulary, which a recipe may leave to its tokenizer until a model is built.

    Args:
        config: the model's sizes.

    Raises:
        UserError: nobody has set it.
    """
    if config.vocab_size is None:
        raise UserError("model.vocab_size: expected a number, got null. Set it to the tokenizer's size.")
    return config.vocab_size
