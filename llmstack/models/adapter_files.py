"""What can be said of adapters before a model is built: which projections they name, and what a PEFT folder holds."""

from __future__ import annotations

import fnmatch
import math
from pathlib import Path
from typing import Any

from llmstack.config.lora import ALL_LINEAR, LoraConfig
from llmstack.config.model import ModelConfig
from llmstack.errors import UserError
from llmstack.models.families import Family
from llmstack.models.hf_config import read_json
from llmstack.models.tensor_files import tensors_of_file
from llmstack.registry import MODELS

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"


class Targets:
    """Names and patterns of projections, and which of them have matched anything.

    Args:
        targets: as in :class:`~llmstack.config.lora.LoraConfig`.
    """

    def __init__(self, targets: tuple[str, ...]) -> None:
        self._targets, self._used, self._seen = targets, set[str](), dict[str, None]()

    def match(self, name: str) -> bool:
        """Whether a projection is named.

        Args:
            name: its full Hugging Face name.
        """
        last = name.rpartition(".")[2]
        self._seen[last] = None
        hits = {t for t in self._targets if t in (ALL_LINEAR, last) or fnmatch.fnmatchcase(name, t)}
        self._used |= hits
        return bool(hits)

    def problem(self) -> str | None:
        """What is wrong with the first one that has matched nothing."""
        for target in self._targets:
            if target not in self._used:
                return (
                    f"expected {ALL_LINEAR}, one of {', '.join(self._seen)} or a pattern of full names like "
                    f"*.layers.0.mlp.*, got {target!r}, which names no projection. Correct it."
                )
        return None


def target_problem(config: LoraConfig, model: ModelConfig) -> str | None:
    """What is wrong with ``target_modules`` for a model; None when each names something.

    Args:
        config: the adapters' options.
        model: the model's sizes, with a vocabulary.
    """
    family: Family = MODELS.get(model.family)
    targets = Targets(config.target_modules)
    for weight in family.weight_maps(model):
        for stored in weight.stored:
            if stored.endswith("_proj.weight"):
                targets.match(stored.removesuffix(".weight"))
    return targets.problem()


def adapter_problem(config: LoraConfig) -> str | None:
    """What keeps adapters from starting from their ``adapter`` folder; None when nothing does or there is none.

    Args:
        config: the adapters' options.
    """
    if config.adapter is None:
        return None
    try:
        theirs = read_adapter_config(config.adapter)
        tensors_of_file(Path(config.adapter) / WEIGHTS_FILE)
    except UserError as error:
        return str(error)
    pairs = {"rank": (config.rank, theirs.rank), "dora": (config.dora, theirs.dora)}
    if not math.isclose(config.scaling, theirs.scaling):
        pairs |= {"alpha": (config.alpha, theirs.alpha), "rslora": (config.rslora, theirs.rslora)}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not differing:
        return None
    ours = ", ".join(f"{name} {pair[0]}" for name, pair in differing.items())
    fix = ", ".join(f"{name}: {str(pair[1]).lower()}" for name, pair in differing.items())
    return f"expected an adapter with the stage's {ours}, got {config.adapter} with other values. Write {fix}."


def read_adapter_config(folder: str | Path) -> LoraConfig:
    """The options of a PEFT adapter folder.

    Args:
        folder: holds ``adapter_config.json``.

    Raises:
        UserError: it is no LoRA adapter, or uses an option that is not implemented.
    """
    path = Path(folder) / CONFIG_FILE
    if not path.is_file():
        raise UserError(f"{folder}: expected a PEFT adapter with {CONFIG_FILE}, got a folder without it. Name another.")
    values = read_json(path)
    plain: dict[str, tuple[Any, ...]] = {
        "peft_type": ("LORA",),
        "bias": ("none",),
        "fan_in_fan_out": (False,),
        "modules_to_save": (None, [], ["score"], ["classifier", "score"]),
        "layers_to_transform": (None,),
        "layers_pattern": (None,),
        "rank_pattern": (None, {}),
        "alpha_pattern": (None, {}),
        "exclude_modules": (None, []),
        "target_parameters": (None, []),
        "trainable_token_indices": (None,),
        "megatron_config": (None,),
    }
    for key, allowed in plain.items():
        if values.get(key, allowed[0]) not in allowed:
            raise UserError(
                f"{path}: {key}: expected {allowed[0]!r}, the only value implemented, got {values[key]!r}. "
                "Merge the adapter into its model and use that."
            )
    targets = values.get("target_modules") or ()
    if not isinstance(values.get("r"), int) or not targets:
        raise UserError(f"{path}: expected r and target_modules, got neither or one. Export the adapter again.")
    return LoraConfig(
        rank=values["r"],
        alpha=float(values.get("lora_alpha", 8)),
        dropout=float(values.get("lora_dropout", 0.0)),
        target_modules=(targets,) if isinstance(targets, str) else tuple(targets),
        rslora=bool(values.get("use_rslora", False)),
        dora=bool(values.get("use_dora", False)),
        adapter=str(folder),
    )
