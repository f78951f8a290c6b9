"""Layouts, hardware and models with round numbers, for tests of plans."""

from __future__ import annotations

from llmstack.config.hardware import HardwareConfig
from llmstack.config.model import ModelConfig
from llmstack.config.parallel import ParallelConfig

_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim")
_SIZES += ("intermediate_size", "vocab_size")
PUBLISHED = {
    # (D, L, H, K, E, F, V), tied, bias; parameters as counted by Hugging Face for the published weights
    "Llama-2-7b": ((4096, 32, 32, 32, 128, 11008, 32000), False, False, 6_738_415_616),
    "Meta-Llama-3-8B": ((4096, 32, 32, 8, 128, 14336, 128256), False, False, 8_030_261_248),
    "Qwen2.5-0.5B": ((896, 24, 14, 2, 64, 4864, 151936), True, True, 494_032_768),
    "Qwen2.5-7B": ((3584, 28, 28, 4, 128, 18944, 152064), False, True, 7_615_616_512),
    "Qwen2.5-32B": ((5120, 64, 40, 8, 128, 27648, 152064), False, True, 32_763_876_352),
    "Qwen2.5-72B": ((8192, 80, 64, 8, 128, 29568, 152064), False, True, 72_706_203_648),
}
"""Models that somebody else has counted."""


def model_of(sizes, *, tied=False, bias=False, **changes) -> ModelConfig:
    """A model from ``(D, L, H, K, E, F, V)``."""
    rest = {"max_position_embeddings": 4096, "rope_theta": 1e4, "rms_norm_eps": 1e-5, "initializer_range": 0.02}
    rest |= {"family": "qwen2" if bias else "llama", "attention_bias": bias, "tie_word_embeddings": tied}
    return ModelConfig(**dict(zip(_SIZES, sizes, strict=True)) | rest | changes)


def published(name: str) -> ModelConfig:
    """One of the published models."""
    sizes, tied, bias, _ = PUBLISHED[name]
    return model_of(sizes, tied=tied, bias=bias)


def small(**changes) -> ModelConfig:
    """Sizes that 2, 4 and 8 divide."""
    return model_of((16, 4, 8, 4, 4, 32, 64), **changes)


def layout(**changes) -> ParallelConfig:
    """A mesh of Ascend devices that compute in bfloat16."""
    return ParallelConfig(**{"mode": "mesh", "device": "ascend", "compute_dtype": "bfloat16", **changes})


def one_cpu() -> ParallelConfig:
    """What training runs today."""
    return ParallelConfig(mode="single", device="cpu")


def card(**changes) -> HardwareConfig:
    """10^12 FLOP/s, 10^9 bytes of memory, hosts of four."""
    options = {"name": "card", "half_tflops": 1.0, "float_tflops": 0.25, "efficiency": 0.5, "memory_gb": 1.0}
    options |= {"reserved_gb": 0.0, "memory_gbps": 100.0, "host_devices": 4, "fast_devices": 4, "fast_gbps": 10.0}
    return HardwareConfig(**options | {"network_gbps": 1.0} | changes)
