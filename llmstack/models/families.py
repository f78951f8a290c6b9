"""Model families: how each one's configuration and weights are called in Hugging Face's folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from llmstack.config.model import ModelConfig, vocab_size_of
from llmstack.errors import UserError

if TYPE_CHECKING:
    from llmstack.models.causal_lm import CausalLM
    from llmstack.models.scalar_model import ScalarModel

EMBEDDING = "trunk.embedding"
LANGUAGE_HEAD = "head.weight"
SCALAR_HEAD = "score.weight"

# Features of a block that are not in every family, and their value in a family that says nothing of them
PLAIN: Mapping[str, Any] = MappingProxyType(
    {
        "attention_bias": False,
        "attention_out_bias": False,
        "mlp_bias": False,
        "qk_norm": False,
        "sliding_window": None,
        "rope_scaling": None,
    }
)


@dataclass(frozen=True)
class WeightMap:
    """One of our parameters and the stored tensors whose rows, one after the other, it is made of.

    Attributes:
        name: structural name of our parameter.
        stored: names of the tensors.
        rows: how many rows each contributes.
    """

    name: str
    stored: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Family:
    """What tells one architecture from another. Register an instance under the ``model_type`` of its ``config.json``.

    Attributes:
        name: registry name, also the ``model_type``.
        causal_architecture: Hugging Face class of the language model.
        scalar_architecture: Hugging Face class of the model with one score.
        open: features of :data:`PLAIN` that ``config.json`` decides, under the same key.
        implied: the other features that are not plain, with the value all models of the family have.
        out_bias_follows: ``attention_bias`` of ``config.json`` speaks of the output projection too.
        absent: what a missing key of ``config.json`` means, where that differs from other families.
        fixed: keys of ``config.json`` for which this family implements one value only.
    """

    name: str
    causal_architecture: str
    scalar_architecture: str
    open: frozenset[str] = field(default=frozenset(), repr=False)
    implied: Mapping[str, Any] = field(default_factory=dict, repr=False)
    out_bias_follows: bool = field(default=False, repr=False)
    absent: Mapping[str, Any] = field(default_factory=dict, repr=False)
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def causal(self, config: ModelConfig, *, seed: int | None) -> CausalLM:
        """A language model with initial weights.

        Args:
            config: the model's sizes.
            seed: of the initial weights; None leaves them to be loaded.

        Raises:
            UserError: a feature the family does not have, or the vocabulary's size is not known.
        """
        from llmstack.models.causal_lm import CausalLM

        self.check(config)
        return CausalLM(config, seed=seed)

    def scalar(self, config: ModelConfig, *, seed: int | None) -> ScalarModel:
        """A reward or value model with initial weights.

        Args:
            config: the model's sizes.
            seed: of the initial weights; None leaves them to be loaded.

        Raises:
            UserError: a feature the family does not have, or the vocabulary's size is not known.
        """
        from llmstack.models.scalar_model import ScalarModel

        self.check(config)
        return ScalarModel(config, seed=seed)

    def check(self, config: ModelConfig) -> None:
        """Refuse sizes that no ``config.json`` of the family could say.

        Args:
            config: the model's sizes.

        Raises:
            UserError: a feature the family does not have.
        """
        for key, plain in PLAIN.items():
            value, only = getattr(config, key), self.implied.get(key, plain)
            if key == "attention_out_bias" and self.out_bias_follows:
                only = config.attention_bias
            elif key in self.open:
                continue
            if value != only:
                raise UserError(
                    f"model.{key}: expected {only!r}, the only value of family {self.name}, got {value!r}. "
                    "Change it, or choose a family that has it."
                )

    def weight_maps(self, config: ModelConfig) -> tuple[WeightMap, ...]:
        """Where every parameter of the trunk and of both heads is stored.

        Args:
            config: the model's sizes, which say what there is and how fused weights are cut.
        """
        maps = []
        for i in range(config.num_hidden_layers):
            for ours, stored, rows in _block_weights(config):
                names = tuple(f"model.layers.{i}.{name}" for name in stored)
                maps.append(WeightMap(f"trunk.blocks.{i}.{ours}", names, rows))
        vocab_size = vocab_size_of(config)
        outside = {
            EMBEDDING: ("model.embed_tokens.weight", vocab_size),
            "trunk.norm.weight": ("model.norm.weight", config.hidden_size),
            LANGUAGE_HEAD: ("lm_head.weight", vocab_size),
            SCALAR_HEAD: ("score.weight", 1),
        }
        return (*maps, *(WeightMap(ours, (stored,), (rows,)) for ours, (stored, rows) in outside.items()))


def _block_weights(config: ModelConfig) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """Parameters of one block: ours, the stored names within a layer, the rows of each."""
    width, mlp = config.hidden_size, config.intermediate_size
    query, kv = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    attention, gate_up = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("mlp.gate_proj", "mlp.up_proj")
    found: list[tuple[str, tuple[str, ...], tuple[int, ...]]] = [
        ("attention_norm.weight", ("input_layernorm.weight",), (width,)),
        ("mlp_norm.weight", ("post_attention_layernorm.weight",), (width,)),
    ]
    projections = (
        ("attention.qkv", attention, (query, kv, kv), config.attention_bias),
        ("attention.out", ("self_attn.o_proj",), (width,), config.attention_out_bias),
        ("mlp.gate_up", gate_up, (mlp, mlp), config.mlp_bias),
        ("mlp.down", ("mlp.down_proj",), (width,), config.mlp_bias),
    )
    for ours, stored, rows, has_bias in projections:
        for kind in ("weight", "bias") if has_bias else ("weight",):
            found.append((f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in stored), rows))
    if config.qk_norm:
        for ours, stored in (("query", "q_norm"), ("key", "k_norm")):
            found.append((f"attention.head_norms.{ours}.weight", (f"self_attn.{stored}.weight",), (config.head_dim,)))
    return found


LLAMA = Family(
    name="llama",
    causal_architecture="LlamaForCausalLM",
    scalar_architecture="LlamaForSequenceClassification",
    open=frozenset({"attention_bias", "mlp_bias", "rope_scaling"}),
    out_bias_follows=True,
)
MISTRAL = Family(
    name="mistral",
    causal_architecture="MistralForCausalLM",
    scalar_architecture="MistralForSequenceClassification",
    open=frozenset({"sliding_window", "rope_scaling"}),
    absent={"sliding_window": 4096, "num_key_value_heads": 8},
)
QWEN2 = Family(
    name="qwen2",
    causal_architecture="Qwen2ForCausalLM",
    scalar_architecture="Qwen2ForSequenceClassification",
    open=frozenset({"rope_scaling"}),
    implied={"attention_bias": True},
    absent={"num_key_value_heads": 32},
    fixed={"use_sliding_window": False},
)
QWEN3 = Family(
    name="qwen3",
    causal_architecture="Qwen3ForCausalLM",
    scalar_architecture="Qwen3ForSequenceClassification",
    open=frozenset({"attention_bias", "rope_scaling"}),
    implied={"qk_norm": True},
    out_bias_follows=True,
    absent={"num_key_value_heads": 32, "head_dim": 128},
    fixed={"use_sliding_window": False},
)
