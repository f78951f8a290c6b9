"""Model families: how each one's configuration and weights are called in Hugging Face's folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmstack.config.model import ModelConfig
from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from llmstack.nn.decoder import vocab_size_of

EMBEDDING = "trunk.embedding"
LANGUAGE_HEAD = "head.weight"
SCALAR_HEAD = "score.weight"


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
        fixed: keys of ``config.json`` for which this family implements one value only.
        trunk_names: our trunk parameters without a layer -> stored name.
        layer_names: our parameters of one block -> stored names within a layer, in row order.
        layer_prefix: stored prefix of layer ``i``, with ``{i}``.
        head_names: our head parameters -> stored name.
    """

    name: str
    causal_architecture: str
    scalar_architecture: str
    fixed: Mapping[str, Any] = field(repr=False)
    trunk_names: Mapping[str, str] = field(repr=False)
    layer_names: Mapping[str, tuple[str, ...]] = field(repr=False)
    layer_prefix: str = field(repr=False)
    head_names: Mapping[str, str] = field(repr=False)

    def causal(self, config: ModelConfig, *, seed: int) -> CausalLM:
        """A language model with initial weights.

        Args:
            config: the model's sizes.
            seed: of the initial weights.

        Raises:
            UserError: the vocabulary's size is not known.
        """
        return CausalLM(config, seed=seed)

    def scalar(self, config: ModelConfig, *, seed: int) -> ScalarModel:
        """A reward or value model with initial weights.

        Args:
            config: the model's sizes.
            seed: of the initial weights.

        Raises:
            UserError: the vocabulary's size is not known.
        """
        return ScalarModel(config, seed=seed)

    def weight_maps(self, config: ModelConfig) -> tuple[WeightMap, ...]:
        """Where every parameter of the trunk and of both heads is stored.

        Args:
            config: the model's sizes, which say how fused weights are cut.
        """
        query_rows = config.num_attention_heads * config.head_dim
        kv_rows = config.num_key_value_heads * config.head_dim
        rows = {
            "attention.qkv": (query_rows, kv_rows, kv_rows),
            "mlp.gate_up": (config.intermediate_size, config.intermediate_size),
            "attention.out": (config.hidden_size,),
            "mlp.down": (config.hidden_size,),
            "attention_norm.weight": (config.hidden_size,),
            "mlp_norm.weight": (config.hidden_size,),
        }
        maps = []
        for i in range(config.num_hidden_layers):
            prefix = self.layer_prefix.format(i=i)
            for ours, stored in self.layer_names.items():
                names = tuple(prefix + name for name in stored)
                maps.append(WeightMap(f"trunk.blocks.{i}.{ours}", names, rows[ours]))
        vocab_size = vocab_size_of(config)
        sizes = {EMBEDDING: vocab_size, LANGUAGE_HEAD: vocab_size, SCALAR_HEAD: 1}
        for ours, name in {**self.trunk_names, **self.head_names}.items():
            maps.append(WeightMap(ours, (name,), (sizes.get(ours, config.hidden_size),)))
        return tuple(maps)


LLAMA = Family(
    name="llama",
    causal_architecture="LlamaForCausalLM",
    scalar_architecture="LlamaForSequenceClassification",
    fixed={
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "rope_scaling": None,
        "quantization_config": None,
    },
    trunk_names={EMBEDDING: "model.embed_tokens.weight", "trunk.norm.weight": "model.norm.weight"},
    layer_names={
        "attention_norm.weight": ("input_layernorm.weight",),
        "attention.qkv": ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
        "attention.out": ("self_attn.o_proj.weight",),
        "mlp_norm.weight": ("post_attention_layernorm.weight",),
        "mlp.gate_up": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
        "mlp.down": ("mlp.down_proj.weight",),
    },
    layer_prefix="model.layers.{i}.",
    head_names={LANGUAGE_HEAD: "lm_head.weight", SCALAR_HEAD: "score.weight"},
)
