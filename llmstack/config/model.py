"""The architecture of a decoder, in Hugging Face's names so that it is also a ``config.json``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.named import NameIn
from llmstack.registry import MODELS


class ModelConfig(Strict):
    """A pre-norm decoder-only transformer (RMSNorm, rotary positions, grouped-query attention, SwiGLU)."""

    family: Annotated[str, NameIn(MODELS)]
    """Name in the model registry, e.g. ``llama``."""
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
