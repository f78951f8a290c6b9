"""What the backward pass of a layer needs of the forward pass, counted tensor by tensor for the blocks of ``nn``.

The counting is that of Korthikanti et al. 2022, section 4, for other blocks: grouped queries, SwiGLU, RMSNorm, no
dropout, and attention that keeps no (T, T) array. Letters: D width, H query heads, K key/value heads, E head width,
F feed-forward width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmstack.config.model import ModelConfig, vocab_size_of
from llmstack.config.parallel import ParallelConfig
from llmstack.parallel.plan.inventory import Head

WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a number."""
_FLASH_BYTES = 2
"""Ascend's attention computes in bfloat16 whatever comes in."""
_FLASH_STATISTICS = 2 * 8 * 4
"""Bytes that it keeps for a token and query head: maximum and sum, float32, eight times each."""


@dataclass(frozen=True)
class TokenBytes:
    """Bytes a token, on one device.

    Attributes:
        layer: that a layer keeps for its backward pass.
        input: of them, the layer's own input.
        cheap: of them, what selective recomputation drops.
        backward: that a layer's backward pass needs besides, while it runs.
        ends: that is kept once: embeddings, angles, final norm.
        logit_row: of a position that reaches the head: logits and what their loss keeps, at its fullest.
    """

    layer: float
    input: float
    cheap: float
    backward: float
    ends: float
    logit_row: float

    def kept(self, recompute: str) -> float:
        """What a layer keeps.

        Args:
            recompute: none, selective or full.
        """
        return {"none": self.layer, "selective": self.layer - self.cheap, "full": self.input}[recompute]

    def made_again(self, recompute: str) -> float:
        """What the layer whose backward pass runs holds besides what it kept.

        Args:
            recompute: none, selective or full.
        """
        return self.layer - self.kept(recompute) + self.backward


def token_bytes(model: ModelConfig, head: Head, parallel: ParallelConfig, *, fused: bool, rank: int = 0) -> TokenBytes:
    """What a token of a row keeps on one device.

    A layer keeps, each number of bytes of the compute dtype unless it says otherwise:

    * D: its input; D: the normalised input, which the fused q, k, v projection needs;
    * native: (H + 2K) E: its output, not yet turned, HE: what heads read, H float32: log-partitions;
      fused: (H + 2K) E turned queries, keys, values and HE results in bfloat16, HE: results with heads merged,
      H statistics, two float32 of the norms;
    * with norms of heads, the projection's output once more;
    * D: the residual stream between; D: it normalised; 2F: gate and up; F: their product.

    Tensor ranks share what has heads or F; with sequence parallelism also what has D.

    Args:
        model: the sizes, with a vocabulary.
        head: what is at the end of the trunk.
        parallel: dtype, tensor ranks and sequence parallelism.
        fused: whether Ascend's fused operators run, not the CPU's kernels.
        rank: r of adapters on every projection; 0: none. Each keeps its inner r numbers.
    """
    number, parts = WIDTH[parallel.compute_dtype], parallel.tensor
    queries = model.num_attention_heads * model.head_dim
    kv_width = model.num_key_value_heads * model.head_dim
    wide = number * model.hidden_size / (parts if parallel.sequence_parallel else 1)
    if fused:
        attention = _FLASH_BYTES * (2 * queries + 2 * kv_width) + number * queries
        attention += _FLASH_STATISTICS * model.num_attention_heads
        norms = 2 * 4.0
    else:
        attention = number * (2 * queries + 2 * kv_width) + 4 * model.num_attention_heads
        norms = 0.0
    if model.qk_norm:
        attention += number * (queries + 2 * kv_width)
    gated = number * model.intermediate_size / parts
    inner = 7 * rank * number
    return TokenBytes(
        layer=4 * wide + norms + attention / parts + 3 * gated + inner,
        input=wide,
        cheap=2 * wide + gated,
        backward=3 * gated + 2 * wide,
        ends=2 * wide + 4 * model.head_dim,
        logit_row=_logit_row(model, head, parts, fused=fused),
    )


def _logit_row(model: ModelConfig, head: Head, parts: int, *, fused: bool) -> float:
    """float32: native keeps logits and makes their gradient; composed operators keep log-probabilities in between."""
    if head == "scalar":
        return 0.0
    return (3 if fused else 2) * 4.0 * vocab_size_of(model) / parts


def mask_bytes(rows: float, tokens: int, context: int) -> float:
    """The mask of Ascend's attention, one byte for each query of this device and key, made once a forward pass.

    Args:
        rows: rows of this device.
        tokens: T of a row.
        context: ranks that share it.
    """
    return rows * tokens * tokens / context


def in_flight(parallel: ParallelConfig, stage: int) -> float:
    """Micro-batches whose activations a pipeline rank holds at once under one-forward-one-backward.

    Narayanan et al. 2021, section 2.2: the ranks behind one still have to send gradients back for as many as there are
    ranks from it to the end; with v pieces a rank, Korthikanti et al. 2022, section 4.2.3: 1 + (p-1)/(p v) times
    as many for the first rank.

    Args:
        parallel: the pipeline.
        stage: which rank of it, from 0.
    """
    more = (parallel.pipeline - 1) / parallel.interleave if parallel.interleave > 1 else 0.0
    return min(float(parallel.micro_batches), parallel.pipeline - stage + more)


def kv_cache_bytes(model: ModelConfig, rows: float, tokens: float, number_bytes: int) -> float:
    """Keys and values of rows, all layers and heads (Kwon et al. 2023, section 3).

    Args:
        model: the sizes.
        rows: answers written at once.
        tokens: slots of a row, prompt and answer together.
        number_bytes: of a number.
    """
    per_token = 2 * model.num_key_value_heads * model.head_dim * model.num_hidden_layers * number_bytes
    return per_token * rows * tokens
