"""Floating-point operations of a network: what a training run is paid for, and what MFU is measured by."""

from __future__ import annotations

from dataclasses import dataclass

from llmstack.config.lora import LoraConfig
from llmstack.config.model import ModelConfig, vocab_size_of
from llmstack.parallel.plan.inventory import Head, alike


@dataclass(frozen=True)
class Flops:
    """Operations of some work; a multiplication and an addition are two.

    Attributes:
        matmul: of products with weights.
        attention: of scores and weighted sums.
    """

    matmul: float = 0.0
    attention: float = 0.0

    @property
    def total(self) -> float:
        """Both."""
        return self.matmul + self.attention

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.matmul + other.matmul, self.attention + other.attention)

    def times(self, factor: float) -> Flops:
        """So many times as much.

        Args:
            factor: how many.
        """
        return Flops(self.matmul * factor, self.attention * factor)


def mean_keys(tokens: int, window: int | None = None) -> float:
    """Keys that a token of a row attends to on average: half of those it could, as it sees none after it.

    Args:
        tokens: T of the row.
        window: tokens that a query sees; None: all before it.

    Returns:
        ``w - w^2 / 2T`` with w the smaller of window and T; T/2 without a window.
    """
    seen = min(window or tokens, tokens)
    return seen - seen * seen / (2 * tokens)


def forward(model: ModelConfig, head: Head, tokens: float, keys: float, targets: float) -> Flops:
    """One forward pass (Chowdhery et al. 2022, appendix B, with causal attention counted as it is).

    2 FLOPs for each weight of a layer and token, 2 for each weight of the head and chosen position; the lookup of an
    embedding is none. A token's scores cost 2 H E a key, its weighted sum as much.

    Args:
        model: the sizes, with a vocabulary.
        head: what is at the end of the trunk.
        tokens: tokens that go through the layers.
        keys: that each attends to, on average.
        targets: positions that reach the head.
    """
    heads_width = model.num_attention_heads * model.head_dim
    kv_width = model.num_key_value_heads * model.head_dim
    width = model.hidden_size
    block = width * (heads_width + 2 * kv_width) + heads_width * width + 3 * width * model.intermediate_size
    outputs = {"language": vocab_size_of(model), "scalar": 1, "both": vocab_size_of(model) + 1}[head]
    matmul = 2.0 * model.num_hidden_layers * block * tokens + 2.0 * width * outputs * targets
    return Flops(matmul, 4.0 * model.num_hidden_layers * heads_width * keys * tokens)


def training(
    model: ModelConfig, head: Head, tokens: float, keys: float, targets: float, lora: LoraConfig | None = None
) -> Flops:
    """Forward and backward pass, without what is computed twice to save memory.

    The backward pass makes two products for each of the forward pass, one for the gradient of the inputs and one for
    that of the weight; frozen weights need the first alone. The updates of adapters are counted whole.

    Args:
        model: the sizes, with a vocabulary.
        head: what is at the end of the trunk.
        tokens: tokens that go through the layers.
        keys: that each attends to, on average.
        targets: positions that reach the head.
        lora: adapters on the frozen model; None: all of it is trained.
    """
    once = forward(model, head, tokens, keys, targets)
    if lora is None:
        return once.times(3.0)
    adapters = sum(spec.size for spec in alike(model, head, lora) if spec.group == "adapters" and len(spec.shape) == 2)
    return Flops(2.0 * once.matmul + 6.0 * adapters * tokens, 3.0 * once.attention)


def generation(model: ModelConfig, rows: int, prompt: int, response: int) -> Flops:
    """Answers with a KV cache: each prompt once, then one token at a time.

    Args:
        model: the sizes, with a vocabulary.
        rows: answers.
        prompt: tokens of a prompt.
        response: tokens of an answer.
    """
    window = model.sliding_window
    reading = forward(model, "language", rows * prompt, mean_keys(prompt, window), rows)
    keys = min(prompt + response / 2, window or prompt + response)
    return reading + forward(model, "language", rows * response, keys, rows * response)


def flops_per_token(model: ModelConfig, seq_len: int) -> Flops:
    """What a token of pretraining costs.

    Args:
        model: the sizes, with a vocabulary.
        seq_len: tokens T of a row.
    """
    return training(model, "language", 1, mean_keys(seq_len, model.sliding_window), 1)


def mfu(useful_flops_per_second: float, num_devices: int, peak_flops: float) -> float:
    """Model FLOPs utilisation (Chowdhery et al. 2022, section 4.1).

    Args:
        useful_flops_per_second: what the model needs, without recomputation, of all devices together.
        num_devices: devices.
        peak_flops: FLOP/s of one at best.
    """
    return useful_flops_per_second / (num_devices * peak_flops)
