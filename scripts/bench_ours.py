#!/usr/bin/env python3
"""What llmstack does in one benchmark, as one JSON line; `bench.py` runs it beside the peer's program.

Sizes are those of the peer programs: width 256, 4 layers, 4 heads, feed-forward 688, vocabulary 4096, own head.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from llmstack.runtime import device

ROWS, SEQ_LEN, STEPS = 8, 256, 8
PROMPTS, PROMPT_LEN, NEW_TOKENS = 32, 32, 64
EOS = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=sorted(BENCHMARKS))
    parser.add_argument("--size", default="256,4,4,4,688,4096", help="D,L,H,K,F,V")
    parser.add_argument("--threads", type=int, default=None)
    args = parser.parse_args()
    device.setup("cpu", args.threads)
    print(json.dumps(BENCHMARKS[args.what](model_config(args.size))))


def model_config(size: str) -> Any:
    from llmstack.config.model import ModelConfig

    width, layers, heads, kv_heads, mlp, vocab = map(int, size.split(","))
    return ModelConfig(
        family="llama",
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=width // heads,
        intermediate_size=mlp,
        vocab_size=vocab,
        max_position_embeddings=SEQ_LEN,
        rope_theta=10000.0,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        initializer_range=0.02,
    )


def optim_config(lr: float = 3e-4, weight_decay: float = 0.1) -> Any:
    from llmstack.config.optim import OptimConfig

    schedule = {"name": "constant", "warmup": "0 steps", "final_ratio": 1.0}
    return OptimConfig.model_validate(
        {
            "name": "adamw",
            "lr": lr,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "weight_decay": weight_decay,
            "max_grad_norm": 1.0,
            "schedule": schedule,
        }
    )


def language_learner(config: Any) -> Any:
    from llmstack.models.checkpoint_io import build_causal
    from llmstack.stages.learner import Learner
    from llmstack.stages.objectives import LanguageObjective

    model = build_causal(config, seed=0)
    return Learner(LanguageObjective(model, z_loss=0.0), model, optim_config())


def train(config: Any) -> dict[str, Any]:
    """One optimizer step on a fixed batch whose every token is trained."""
    from llmstack.data.documents import Documents
    from llmstack.data.rows import text_rows
    from llmstack.stages.language import TargetInputs

    tokens = np.random.default_rng(0).integers(0, config.vocab_size, (ROWS, SEQ_LEN + 1)).astype(np.int32)
    shape = (ROWS, SEQ_LEN)
    batch = {
        "tokens": tokens[:, :-1],
        "labels": tokens[:, 1:],
        "positions": np.broadcast_to(np.arange(SEQ_LEN, dtype=np.int32), shape).copy(),
        "segments": np.ones(shape, np.int32),
        "loss_mask": np.ones(shape, np.float32),
    }
    learner = language_learner(config)
    documents = Documents(batch["tokens"].reshape(-1), np.array([0, ROWS * SEQ_LEN]))
    inputs = TargetInputs(text_rows(documents, SEQ_LEN, 0), batch_rows=ROWS)
    started = time.perf_counter()
    learner.update(float(ROWS * SEQ_LEN), [inputs(batch)], 10**6)
    first = time.perf_counter() - started
    seconds = []
    for _ in range(STEPS):
        started = time.perf_counter()
        learner.update(float(ROWS * SEQ_LEN), [inputs(batch)], 10**6)
        seconds.append(time.perf_counter() - started)
    step = statistics.median(seconds)
    rate = ROWS * SEQ_LEN / step
    peak = matmul_rate()
    return {
        "what": "train",
        "first_seconds": first,
        "step_seconds": step,
        "tokens_per_second": rate,
        "mfu": flops_per_token(config) * rate / peak,
        "peak_gflops": peak / 1e9,
    }


def sft(config: Any) -> dict[str, Any]:
    """Optimizer steps on ragged prompts with completions, packed; useful tokens are those that are not padding."""
    from llmstack.data.documents import Documents, Encoded, Losses
    from llmstack.data.loader import Loader
    from llmstack.data.rows import chat_rows
    from llmstack.stages.language import TargetInputs

    draw = random.Random(0)
    documents, masks = [], []
    for _ in range(512):  # the peer's lengths
        prompt = max(4, min(SEQ_LEN // 2, int(draw.lognormvariate(3.0, 0.7))))
        completion = max(4, min(SEQ_LEN // 2 - 1, int(draw.lognormvariate(3.6, 0.8))))
        documents.append([draw.randrange(3, config.vocab_size) for _ in range(prompt + completion)] + [EOS])
        masks.append([0] * prompt + [1] * (completion + 1))
    encoded = Encoded.of(documents, masks, [""] * len(documents), Losses(records=len(documents)))
    rows = chat_rows(Documents.of([encoded]), SEQ_LEN, 0, max_untrained_ratio=0.0)
    loader, inputs = Loader(rows, batch_rows=ROWS, seed=0), TargetInputs(rows, batch_rows=ROWS)
    learner = language_learner(config)
    useful, seconds = [], []
    for _ in range(STEPS + 4):
        batch = loader.next()
        started = time.perf_counter()
        learner.update(float(batch["loss_mask"].sum()), [inputs(batch)], 10**6)
        seconds.append(time.perf_counter() - started)
        useful.append(int((batch["segments"] > 0).sum()))
    rate = sum(useful[2:]) / sum(seconds[2:])
    return {"what": "sft", "useful_tokens_per_second": rate, "useful_tokens_per_step": statistics.mean(useful)}


def ppo(config: Any, *, trunk: str = "separate") -> dict[str, Any]:
    """Whole iterations of the PPO stage: rollouts, scoring, all epochs; random weights."""
    from llmstack.data.bucket_rows import PromptRows
    from llmstack.data.row_tables import EncodeReport
    from llmstack.models.checkpoint_io import build_causal, build_scalar
    from llmstack.runtime import compile_count
    from llmstack.stages.base import StageContext
    from llmstack.stages.ppo.stage import PpoStage

    class RandomPpo(PpoStage):
        """The stage without files: random models, random prompts."""

        def language_model(self, source: str | None, purpose: str) -> Any:
            return build_causal(config, seed=("policy", "reference").index(purpose))

        def scalar_model(self, source: str | None, purpose: str) -> Any:
            return build_scalar(config, seed=("critic", "reward").index(purpose) + 2)

        def build_loader(self) -> None:
            tokens = np.random.default_rng(0).integers(3, config.vocab_size, (PROMPTS * 8, PROMPT_LEN))
            lengths, texts = np.full(len(tokens), PROMPT_LEN, np.int32), ("",) * len(tokens)
            report = EncodeReport(len(tokens), len(tokens))
            self.prompts = PromptRows(
                tokens.astype(np.int32), lengths, report, (PROMPT_LEN,), texts, (None,) * len(tokens)
            )
            self.loader = self.make_loader(lambda source: self.prompts)

    inputs = {"random": Path("random")}  # never opened
    context = StageContext(name="bench", seed=0, model=config, tokenizer=_Ids(), inputs=inputs)  # type: ignore[arg-type]
    stage = RandomPpo(ppo_config(trunk), context)
    stage.build()
    seconds, compiled = [], 0
    for index in range(1, 5):
        started = time.perf_counter()
        stage.step(index)
        seconds.append(time.perf_counter() - started)
        compiled = compiled or compile_count.snapshot().graphs
    step = statistics.median(seconds[1:])
    return {
        "what": "ppo",
        "trunk": trunk,
        "seconds_per_iteration": step,
        "iterations_per_second": 1.0 / step,
        "first_seconds": seconds[0],
        "compiled_later": compile_count.snapshot().graphs - compiled,
    }


def ppo_shared(config: Any) -> dict[str, Any]:
    """``ppo`` whose critic is a value head on the policy's trunk."""
    return ppo(config, trunk="shared") | {"what": "ppo_shared"}


@dataclass(frozen=True)
class _Ids:
    """Stands in for a tokenizer: ids have no text."""

    eos_ids: tuple[int, ...] = (EOS,)
    pad_id: int = 0

    def decode(self, ids: Any) -> str:
        return ""


def ppo_config(trunk: str = "separate") -> Any:
    from llmstack.config.ppo import PpoConfig

    source = {"source": "stdlib_summaries", "split": "policy"}
    return PpoConfig.model_validate(
        {
            "kind": "ppo",
            "init_from": "random",
            "data": source,
            "eval_data": source,
            "budget": "100 steps",
            "batch_rows": PROMPTS,
            "optim": optim_config(3e-6, weight_decay=0.0).model_dump(mode="json"),  # as the peer
            "log_every": "1 step",
            "eval_every": "1k steps",
            "save_every": "1k steps",
            "reward": {"kind": "model", "from": "random"},
            "reference": "random",
            "prompt_buckets": [PROMPT_LEN],
            "response_len": NEW_TOKENS,
            "eval_prompts": 1,
            "epochs": 4,
            "minibatches": 4,
            "kl": {"mode": "fixed", "beta": 0.05, "ceiling": 1e6},
            "critic": {"lr": 3e-6} if trunk == "separate" else {"trunk": trunk},
        }
    )


def deep_config() -> Any:
    """Sizes of SmolLM2-135M: 30 layers."""
    return model_config("576,30,9,3,1536,49152")


def deep_generate(config: Any) -> dict[str, Any]:
    """``generate`` of one row with a 135M-parameter model of 30 layers."""
    return generate(deep_config(), num_rows=1) | {"what": "deep_generate"}


def compile_times(config: Any) -> dict[str, Any]:
    """Seconds to compile the training graph of 2, 8 and 30 layers with adapters on every projection, 512 tokens."""
    from llmstack.config.lora import LoraConfig
    from llmstack.models.adapters import put_on_adapters
    from llmstack.models.checkpoint_io import build_causal
    from llmstack.runtime import compile_count
    from llmstack.stages.learner import Learner
    from llmstack.stages.objectives import LanguageObjective

    tokens = np.zeros((1, 512), np.int32)
    order = np.arange(512, dtype=np.int32)
    batch = {
        "tokens": tokens,
        "positions": order[None],
        "segments": tokens + 1,
        "targets": order,
        "labels": tokens[0],
        "mask": np.ones(512, np.float32),
    }
    options = LoraConfig(rank=8, alpha=16.0, dropout=0.05, target_modules=("all-linear",))
    found = {}
    for layers in (2, 8, 30):
        sizes = {"num_hidden_layers": layers, "tie_word_embeddings": True, "max_position_embeddings": 512}
        model = build_causal(deep_config().model_copy(update=sizes), seed=0)
        put_on_adapters(model, options, seed=0)
        before = compile_count.snapshot().seconds
        Learner(LanguageObjective(model, z_loss=0.0), model, optim_config()).update(512.0, [batch], 10)
        found[layers] = round(compile_count.snapshot().seconds - before, 2)
    return {"what": "compile", "graphs_per_second": len(found) / sum(found.values()), "compile_seconds": found}


def generate(config: Any, num_rows: int = PROMPTS) -> dict[str, Any]:
    """New tokens of a batch of equally long prompts, sampled at temperature 1 with no end token."""
    from llmstack.generation.generator import Generator
    from llmstack.models.checkpoint_io import build_causal

    sampler = Generator(
        build_causal(config, seed=0), batch_rows=num_rows, prompt_len=PROMPT_LEN, max_new_tokens=NEW_TOKENS, eos_ids=()
    )
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, config.vocab_size, (num_rows, PROMPT_LEN)).astype(np.int32)
    lengths = np.full(num_rows, PROMPT_LEN, np.int32)
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        sampler.generate(tokens, lengths, temperature=1.0, rng=rng)
        seconds.append(time.perf_counter() - started)
    run = statistics.median(seconds[1:])
    return {
        "what": "generate",
        "new_tokens_per_second": num_rows * NEW_TOKENS / run,
        "ms_per_decode_step": 1e3 * run / NEW_TOKENS,
        "first_seconds": seconds[0],
    }


def flops_per_token(config: Any) -> float:
    """FLOPs of forward and backward, see `docs/formulas.md`, section 8."""
    from llmstack.parallel.plan import flops

    return flops.flops_per_token(config, SEQ_LEN).total


def matmul_rate() -> float:
    """FLOP/s of a large float32 matrix product in a graph: what this machine can do now."""
    import mindspore as ms
    from mindspore import nn, ops

    class Product(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.product = ops.MatMul(transpose_b=True)

        def construct(self, a: ms.Tensor, b: ms.Tensor) -> ms.Tensor:
            return self.product(a, b)

    size, times = 1536, []
    a, b = (ms.Tensor(np.random.default_rng(i).standard_normal((size, size)).astype(np.float32)) for i in range(2))
    product = Product()
    product(a, b).asnumpy()
    for _ in range(7):
        started = time.perf_counter()
        product(a, b).asnumpy()
        times.append(time.perf_counter() - started)
    return 2.0 * size**3 / statistics.median(times)


BENCHMARKS = {
    "train": train,
    "sft": sft,
    "ppo": ppo,
    "ppo_shared": ppo_shared,
    "generate": generate,
    "deep_generate": deep_generate,
    "compile": compile_times,
}

if __name__ == "__main__":
    main()
