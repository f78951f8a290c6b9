"""The files of a run that MindFormers' own trainer takes over: ``run.yaml``, ``train.py``, rows and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from llmstack.config.model import ModelConfig
from llmstack.config.optim import OptimConfig
from llmstack.integrations.mindformers.checkpoints import RUN_FILE, hf_to_mindformers

COLUMNS = ("tokens", "positions", "segments", "labels", "loss_mask")
"""Arrays of a batch, in the order the exported network takes them."""
ROWS_FILE = "rows.npz"
START = "start"
"""The folder of the model the run starts from, in Hugging Face's format with its tokenizer."""
_PROGRAM = '''"""Trains this run with MindFormers: `python train.py`. Needs llmstack and mindformers."""

from pathlib import Path

from llmstack.runtime import device

# before anything imports MindSpore
device.quiet_environment()

from llmstack.integrations.mindformers.trainer import train  # noqa: E402

train(Path(__file__).with_name("{run_file}"))
'''


@dataclass(frozen=True)
class TrainerRun:
    """What is handed over.

    Attributes:
        seed: of the recipe.
        device: ``cpu`` or ``ascend``.
        sizes: of the model.
        optim: AdamW's options and the clip; the schedule is in ``shares``.
        columns: name -> (N, T) array of all rows, for each of ``COLUMNS``.
        steps: (S, R) int32, which rows each optimizer step takes.
        shares: (S,) float64, learning rate of each step as a share of the peak.
    """

    seed: int
    device: str
    sizes: ModelConfig
    optim: OptimConfig
    columns: Mapping[str, np.ndarray]
    steps: np.ndarray
    shares: np.ndarray


def write_run(run: TrainerRun, out: Path) -> None:
    """Writes everything but the starting model, which must be there already.

    Args:
        run: what is handed over.
        out: folder that has the model in :data:`START`.
    """
    hf_to_mindformers(out / START, out)
    columns = {name: run.columns[name] for name in COLUMNS}
    np.savez(out / ROWS_FILE, **columns, steps=run.steps, shares=run.shares)
    text = yaml.safe_dump(trainer_config(run), sort_keys=False, allow_unicode=True)
    (out / RUN_FILE).write_text("# A run for mindformers.Trainer; paths count from this folder.\n" + text, "utf-8")
    (out / "train.py").write_text(_PROGRAM.format(run_file=RUN_FILE), encoding="utf-8")


def trainer_config(run: TrainerRun) -> dict[str, Any]:
    """The run as MindFormers' trainer reads it.

    Args:
        run: what is handed over.
    """
    num_steps, rows_of_step = run.steps.shape
    on_cpu = run.device == "cpu"
    return {
        "seed": run.seed,
        "output_dir": "./output",
        "run_mode": "train",
        "use_legacy": False,
        "use_parallel": False,
        "load_checkpoint": "./model.safetensors",
        "load_ckpt_format": "safetensors",
        "auto_trans_ckpt": False,
        # sum and count come apart and are divided once, over the whole batch
        "calculate_per_token_loss": True,
        "print_separate_loss": False,
        "context": {"mode": 0, "device_target": "CPU" if on_cpu else "Ascend"},
        "trainer": {"type": "CausalLanguageModelingTrainer", "model_name": "llmstack"},
        "runner_config": {
            "epochs": 1,
            "batch_size": rows_of_step,
            "gradient_accumulation_steps": 1,
            "sink_mode": False,
        },
        "runner_wrapper": {
            "type": "LlmstackCpuTrainOneStepCell" if on_cpu else "MFTrainOneStepCell",
            "use_clip_grad": True,
            "max_grad_norm": run.optim.max_grad_norm,
            "scale_sense": 1.0,
        },
        "optimizer": {
            "type": "AdamW",
            "betas": list(run.optim.betas),
            "eps": run.optim.eps,
            "weight_decay": run.optim.weight_decay,
        },
        "lr_schedule": {"type": "LlmstackRates", "learning_rate": run.optim.lr, "folder": "."},
        "model": {"model_config": _model_config(run.sizes)},
        "train_dataset": {"folder": ".", "batch_size": rows_of_step},
        "train_dataset_task": {"type": "LlmstackPackedRows"},
        "callbacks": [{"type": "MFLossMonitor", "per_print_times": 1}, _checkpoints(num_steps)],
    }


def _model_config(sizes: ModelConfig) -> dict[str, Any]:
    return {
        "model_type": "llmstack",
        "architectures": ["LlmstackForCausalLM"],
        # the trainer itself reads these two
        "hidden_size": sizes.hidden_size,
        "vocab_size": sizes.vocab_size,
        "sizes": sizes.model_dump(mode="json", exclude={"provider"}),
    }


def _checkpoints(num_steps: int) -> dict[str, Any]:
    """One checkpoint, after the last step; more are a matter of ``save_checkpoint_steps``."""
    return {
        "type": "CheckpointMonitor",
        "prefix": "llmstack",
        "save_checkpoint_steps": num_steps,
        "keep_checkpoint_max": 1,
        "integrated_save": False,
        "async_save": False,
        "checkpoint_format": "safetensors",
    }
