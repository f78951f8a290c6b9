"""MindFormers' mcore ``GPTModel`` built for our configurations, and read the way our models are.

On Ascend it is the stock network: fused norms, flash attention in bfloat16, the stock embedding. On a CPU the parts
that have no CPU operator are exchanged (:mod:`llmstack.integrations.mindformers.cpu_parts`) and everything is float32.
On both, mask and angles of the positions are made here, so packed documents and padding on either side are right.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.config.model import ModelConfig, vocab_size_of
from llmstack.errors import UserError
from llmstack.integrations.mindformers import cpu_parts
from llmstack.integrations.mindformers.library import (
    GPTModel,
    TransformerBlockSubmodules,
    TransformerConfig,
    get_gpt_layer_local_spec,
    get_norm_cls,
    init_method_zero,
    mcore_mode,
)
from llmstack.integrations.mindformers.weights import names_for, stored_names
from llmstack.nn import decoder, kernels
from llmstack.nn.composed import ComposedMask
from llmstack.nn.fused import FusedMask


def build_gpt(config: ModelConfig, stored: Collection[str], *, language_head: bool = True) -> Any:
    """The network with blank weights.

    Args:
        config: the model's sizes.
        stored: Hugging Face names of the model's tensors, which say whether it has biases and norms of the queries.
        language_head: False leaves the output layer out.

    Returns:
        A ``GPTModel``.

    Raises:
        UserError: the model has parts that this network does not.
    """
    unknown = sorted(set(stored) - {part for name in names_for(stored) for part in stored_names(name) or ()})
    if unknown:
        raise UserError(
            f"model.provider: expected weights that MindFormers' network has, got {', '.join(unknown[:3])} "
            f"of the family {config.family}. Write `provider: native`."
        )
    if config.hidden_size % config.num_attention_heads:
        raise UserError(
            f"model.hidden_size: expected a multiple of num_attention_heads ({config.num_attention_heads}), which "
            f"MindFormers' attention needs, got {config.hidden_size}. Change one, or write `provider: native`."
        )
    fused = kernels.on_ascend()
    qk_norm = any(name.endswith(".q_norm.weight") for name in stored)
    qkv_bias = any(name.endswith(".q_proj.bias") for name in stored)
    mcore = transformer_config(config, fused=fused, qk_norm=qk_norm, qkv_bias=qkv_bias)
    layer = get_gpt_layer_local_spec(qk_layernorm=qk_norm) if fused else cpu_parts.layer_spec(qk_norm=qk_norm)
    with mcore_mode():
        return GPTModel(
            config=mcore,
            transformer_layer_spec=TransformerBlockSubmodules(
                layer_specs=[layer] * config.num_hidden_layers, layer_norm=get_norm_cls(fused)
            ),
            vocab_size=vocab_size_of(config),
            max_sequence_length=config.max_position_embeddings,
            post_process=language_head,
            position_embedding_type="rope",
            rotary_base=config.rope_theta,
            share_embeddings_and_output_weights=config.tie_word_embeddings,
        )


def transformer_config(config: ModelConfig, *, fused: bool, qk_norm: bool, qkv_bias: bool) -> Any:
    """MindFormers' words for a configuration of ours.

    Args:
        config: the model's sizes.
        fused: Ascend's fused operators in bfloat16; False is plain ones in float32.
        qk_norm: queries and keys are normalised.
        qkv_bias: their projections have a bias.

    Returns:
        A ``TransformerConfig``.
    """
    blank = init_method_zero(ms.float32)
    return TransformerConfig(
        num_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        ffn_hidden_size=config.intermediate_size,
        num_attention_heads=config.num_attention_heads,
        num_query_groups=config.num_key_value_heads,
        kv_channels=config.head_dim,
        vocab_size=vocab_size_of(config),
        max_position_embeddings=config.max_position_embeddings,
        # only sizes the T x T mask that the stock entry makes of pad ids and that is never used here
        seq_length=1,
        normalization="RMSNorm",
        layernorm_epsilon=config.rms_norm_eps,
        qk_layernorm=qk_norm,
        add_bias_linear=False,
        add_qkv_bias=qkv_bias,
        gated_linear_unit=True,
        hidden_act="silu",
        position_embedding_type="rope",
        rotary_base=config.rope_theta,
        use_eod_reset=True,
        # its loss gives sum and count apart
        calculate_per_token_loss=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tie_word_embeddings=config.tie_word_embeddings,
        untie_embeddings_and_output_weights=not config.tie_word_embeddings,
        fused_norm=fused,
        use_flash_attention=fused,
        compute_dtype="bfloat16" if fused else "float32",
        params_dtype="float32",
        init_method=blank,
        output_layer_init_method=blank,
    )


class GatheredEmbedding(nn.Cell):
    """Rows of MindFormers' embedding matrix by an operator that a CPU can differentiate.

    Args:
        gpt: the network that owns the matrix.
    """

    def __init__(self, gpt: Any) -> None:
        super().__init__(auto_prefix=False)
        self.weight = gpt.embedding.word_embeddings.weight

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor) -> Tensor:
        """Look up.

        Args:
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32; the embedding of MindFormers takes them too and, with rotary ones, leaves them.

        Returns:
            (T, B, D) float32.
        """
        return ops.gather(self.weight, ops.transpose(tokens_BT, (1, 0)), 0)


class Angles(nn.Cell):
    """Rotary angles in the form MindFormers' layers take, looked up by position.

    Less one cycle each: it takes cosine and sine of float32 angles, which far from 0 have few digits left.

    Args:
        angles: (P, E/2) angle of each position and pair of channels, any whole cycles added.
    """

    def __init__(self, angles: np.ndarray) -> None:
        super().__init__(auto_prefix=False)
        self.table = Tensor(np.concatenate([angles, angles], axis=1).astype(np.float32))

    def construct(self, positions_BT: Tensor) -> Tensor:
        """Look up.

        Args:
            positions_BT: (B, T) int32.

        Returns:
            (T, B, 1, E) float32.
        """
        return ops.expand_dims(ops.gather(self.table, ops.transpose(positions_BT, (1, 0)), 0), 2)


class Trunk(decoder.Trunk):
    """Embedding, layers and final norm of a ``GPTModel``, called as our own decoder is.

    Args:
        gpt: the network.
        angles: (P, E/2) angle of each position and pair of channels.
        window: tokens a query sees, itself included; None: all before it.
    """

    def __init__(self, gpt: Any, angles: np.ndarray, window: int | None) -> None:
        super().__init__(auto_prefix=False)
        fused = gpt.config.use_flash_attention
        self.embedding = gpt.embedding if fused else GatheredEmbedding(gpt)
        self.mask = FusedMask(window) if fused else ComposedMask(window)
        self.angles = Angles(angles)
        self.decoder = gpt.decoder
        self.hidden_size = gpt.config.hidden_size

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor) -> Tensor:
        """Run every layer.

        Args:
            tokens_BT: (B, T) int32 token ids.
            positions_BT: (B, T) int32, place of each token in its document.
            segments_BT: (B, T) int32, document of each token within its row, 0 for padding.

        Returns:
            (B, T, D) float32, normalised.
        """
        embedded_TBD = self.embedding(tokens_BT, positions_BT)
        rotary = (self.angles(positions_BT), 1.0)
        hidden_TBD, _, _ = self.decoder(embedded_TBD, self.mask(segments_BT), rotary)
        return ops.cast(ops.transpose(hidden_TBD, (1, 0, 2)), ms.float32)


class Head(nn.Cell):
    """The output layer of a ``GPTModel`` on any choice of rows.

    Args:
        gpt: the network.
    """

    def __init__(self, gpt: Any) -> None:
        super().__init__(auto_prefix=False)
        self.output_layer = gpt.output_layer
        tied = gpt.share_embeddings_and_output_weights
        self.weight = gpt.embedding.word_embeddings.weight if tied else gpt.output_layer.weight

    def construct(self, hidden_ND: Tensor) -> Tensor:
        """Project.

        Args:
            hidden_ND: (N, D) float32.

        Returns:
            (N, V) float32.
        """
        logits_NV, _ = self.output_layer(hidden_ND, self.weight)
        return ops.cast(logits_NV, ms.float32)
