#!/usr/bin/env python3
"""Peak memory of a training step on this CPU beside what `llmstack plan` says of activations and logits.

    scripts/measure_activations.py [SIZE ...]

Each size trains two steps in two processes, the second with twice the rows; what the peak grows by is what the further
rows keep, as all else is the same. A process takes about ten seconds and one core.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

# D, L, H, K, E, F, V, T, rows
SIZES = {
    "wide_vocabulary": (256, 3, 4, 4, 64, 688, 2048, 256, 8),
    "grouped_queries": (384, 2, 6, 2, 64, 1024, 512, 256, 8),
    "deep": (128, 8, 4, 1, 32, 512, 4096, 128, 16),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", metavar="|".join(SIZES), help="sizes to measure (default: all)")
    parser.add_argument("--child", type=int, metavar="ROWS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.sizes) - set(SIZES):
        parser.error(f"unknown size {', '.join(sorted(unknown))}; choose from {', '.join(SIZES)}")
    if args.child is not None:
        print(peak_bytes(SIZES[args.sizes[0]], args.child))
        return 0
    for name in args.sizes or SIZES:
        rows = SIZES[name][-1]
        small, large = (in_a_process(name, count) for count in (rows, 2 * rows))
        measured, planned = large - small, planned_bytes(SIZES[name], 2 * rows) - planned_bytes(SIZES[name], rows)
        error = planned / measured - 1
        print(f"{name}: measured {measured / 1e6:.1f} MB, planned {planned / 1e6:.1f} MB ({error:+.0%})", flush=True)
    return 0


def in_a_process(name: str, rows: int) -> int:
    command = [sys.executable, __file__, name, "--child", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=400)
    return int(done.stdout.split()[-1])


def model_config(sizes: tuple[int, ...]) -> Any:
    from llmstack.config.model import ModelConfig

    width, layers, heads, kv_heads, head, mlp, vocab, tokens, _ = sizes
    return ModelConfig(
        family="llama",
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head,
        intermediate_size=mlp,
        vocab_size=vocab,
        max_position_embeddings=tokens,
        rope_theta=1e4,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=0.02,
    )


def planned_bytes(sizes: tuple[int, ...], rows: int) -> float:
    from llmstack.config.parallel import ParallelConfig
    from llmstack.parallel.plan.memory import card_memory
    from llmstack.parallel.plan.work import Network, Pass, StageWork

    tokens = sizes[-2]
    network = Network("model", model_config(sizes), "language", True)
    work = StageWork("s", "pretrain", (network,), (Pass(network, True, rows, tokens, tokens, 1),), (), 1, 1, False)
    memory = card_memory(work, ParallelConfig(mode="single", device="cpu"), fused=False)
    return memory.activations + memory.logits


def peak_bytes(sizes: tuple[int, ...], rows: int) -> int:
    """Highest resident memory of this process after two steps."""
    from llmstack.runtime import device

    device.setup("cpu", threads=1)
    import mindspore as ms
    import numpy as np

    from llmstack.config.optim import OptimConfig
    from llmstack.models.causal_lm import CausalLM
    from llmstack.optim.adamw import AdamW
    from llmstack.optim.train_step import TrainStep
    from llmstack.stages.objectives import LanguageObjective

    tokens, vocab = sizes[-2], sizes[-3]
    model = CausalLM(model_config(sizes))
    schedule = {"name": "constant", "warmup": "0 steps", "final_ratio": 1.0}
    options = {"name": "adamw", "lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
    optim = OptimConfig(**options, max_grad_norm=1.0, schedule=schedule)
    step = TrainStep(LanguageObjective(model, z_loss=0.0), AdamW(model.trainable_params(), optim), max_grad_norm=1.0)
    rng, count = np.random.default_rng(0), rows * tokens
    inputs = (
        rng.integers(0, vocab, (rows, tokens)).astype(np.int32),
        np.tile(np.arange(tokens, dtype=np.int32), (rows, 1)),
        np.ones((rows, tokens), np.int32),
        np.arange(count, dtype=np.int32),
        rng.integers(0, vocab, count).astype(np.int32),
        np.ones(count, np.float32),
    )
    for _ in range(2):
        rate, weight = ms.Tensor(1e-3, ms.float32), ms.Tensor(1.0 / count, ms.float32)
        step(rate, weight, *(ms.Tensor(array) for array in inputs))[0].asnumpy()
    with open("/proc/self/status", encoding="utf-8") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024


if __name__ == "__main__":
    sys.exit(main())
