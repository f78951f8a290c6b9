"""Low-rank adapters on a model: put on, merged into plain weights, and in and out of PEFT's folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn
from safetensors.numpy import save_file

from llmstack.config.lora import LoraConfig
from llmstack.errors import UserError
from llmstack.models.adapter_files import CONFIG_FILE, WEIGHTS_FILE, Targets, adapter_problem
from llmstack.models.causal_lm import CausalLM
from llmstack.models.families import SCALAR_HEAD, Family
from llmstack.models.hf_config import write_json
from llmstack.models.scalar_model import ScalarModel
from llmstack.models.tensor_files import tensors_of_file
from llmstack.models.weights import check_match, export_arrays
from llmstack.nn.graph_reuse import share_graph
from llmstack.nn.lora import LoraLinear, LowRankUpdate, Projection
from llmstack.registry import MODELS

_PREFIX = "base_model.model."
_LAYERS = ("attention.qkv", "attention.out", "mlp.gate_up", "mlp.down")
# (parameter of an update, its name in PEFT's files)
_STORED = (("a", "lora_A.weight"), ("b", "lora_B.weight"), ("magnitude", "lora_magnitude_vector"))


def put_on_adapters(model: CausalLM | ScalarModel, config: LoraConfig, *, seed: int) -> None:
    """Freeze a model and give its projections low-rank updates that change nothing yet. A scalar head stays trained.

    Args:
        model: a plain model; its graphs must not have been compiled yet.
        config: the adapters' options; with ``adapter`` the updates start from that folder's.
        seed: of the first values.

    Raises:
        UserError: a target that names no projection, or a folder that does not fit.
    """
    maps = {weight.name: weight for weight in _family(model).weight_maps(model.config)}
    wanted = Targets(config.target_modules)
    for name, parameter in model.parameters_and_names():
        parameter.requires_grad = name == SCALAR_HEAD
    for index, block in enumerate(model.trunk.blocks):
        here: list[Any] = []
        for layer in _LAYERS:
            here.append(layer)
            weight = maps[f"trunk.blocks.{index}.{layer}.weight"]
            projections = [
                Projection(name := stored.removesuffix(".weight"), rows, wanted.match(name))
                for stored, rows in zip(weight.stored, weight.rows, strict=True)
            ]
            if not any(projection.adapted for projection in projections):
                continue
            owner, _, attribute = layer.rpartition(".")
            cell = block.attention if owner == "attention" else block.mlp
            setattr(cell, attribute, LoraLinear(getattr(cell, attribute), projections, config, seed=seed))
            here += [projection.adapted for projection in projections]
        share_graph(block, model.config, type(block.attention.kernel), config, here)
    if problem := wanted.problem():
        raise UserError(f"lora.target_modules: {problem}")
    model.update_parameters_name()
    for _, update, weight in updates(model):
        if config.dora:
            rows = np.linalg.norm(weight.astype(np.float64), axis=1).astype(np.float32)
            update.magnitude.set_data(Tensor(rows))
    if config.adapter is not None:
        if problem := adapter_problem(config):
            raise UserError(f"lora.adapter: {problem}")
        load_adapter(model, Path(config.adapter))


def has_adapters(model: nn.Cell) -> bool:
    """Whether a model carries updates.

    Args:
        model: any Cell.
    """
    return any(isinstance(cell, LoraLinear) for _, cell in model.cells_and_names())


def updates(model: nn.Cell) -> Iterator[tuple[str, LowRankUpdate, np.ndarray]]:
    """Every update of a model with the frozen weight it belongs to.

    Args:
        model: a model with adapters.

    Yields:
        ``(name, update, weight)``: the projection's full Hugging Face name, the Cell, and (O, I) float32, a copy.
    """
    for _, cell in model.cells_and_names():
        if not isinstance(cell, LoraLinear):
            continue
        weights = np.split(np.array(cell.weight.asnumpy()), np.cumsum(cell.rows)[:-1])
        adapted = iter(cell.updates)
        for projection, weight in zip(cell.projections, weights, strict=True):
            if projection.adapted:
                yield projection.name, next(adapted), weight


def merged_arrays(model: CausalLM | ScalarModel) -> dict[str, np.ndarray]:
    """The parameters of the plain model that computes the same, by structural name. The model itself stays as it is.

    W + factor B A, its rows brought to their own lengths where they have them; in float64, rounded once.

    Args:
        model: with or without adapters.
    """
    maps = {stored: weight for weight in _family(model).weight_maps(model.config) for stored in weight.stored}
    arrays = {name: array for name, array in export_arrays(model).items() if name in {m.name for m in maps.values()}}
    for name, update, weight in updates(model):
        target = maps[f"{name}.weight"]
        first = sum(target.rows[: target.stored.index(f"{name}.weight")])
        arrays[target.name][first : first + len(weight)] = merged_weight(update, weight)
    return arrays


def merged_weight(update: LowRankUpdate, weight_OI: np.ndarray) -> np.ndarray:
    """One projection's weight with its update.

    Args:
        update: the update.
        weight_OI: (O, I) float32, the frozen weight.

    Returns:
        (O, I) float32.
    """
    a, b = update.a.asnumpy().astype(np.float64), update.b.asnumpy().astype(np.float64)
    merged = weight_OI + update.scaling * (b @ a)
    if update.has_magnitude:
        merged *= (update.magnitude.asnumpy() / np.linalg.norm(merged, axis=1))[:, None]
    return merged.astype(np.float32)


def save_adapter(model: CausalLM | ScalarModel, folder: str | Path, config: LoraConfig, *, base: str | None) -> None:
    """Write a folder that ``peft`` loads.

    Args:
        model: with adapters.
        folder: made when missing.
        config: the adapters' options.
        base: where the frozen model is found; None when nobody knows.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name, _, _ in updates(model)]
    scalar = isinstance(model, ScalarModel)
    values: dict[str, Any] = {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS" if scalar else "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": config.dropout,
        "use_rslora": config.rslora,
        "use_dora": config.dora,
        "target_modules": _shortest(names, model),
        "modules_to_save": ["score"] if scalar else None,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
    }
    write_json(folder / CONFIG_FILE, values)
    arrays = {name: np.array(parameter.asnumpy()) for name, parameter in _stored(model).items()}
    save_file(arrays, folder / WEIGHTS_FILE, {"format": "pt"})


def load_adapter(model: CausalLM | ScalarModel, folder: Path) -> None:
    """Set a model's updates from a PEFT folder; names and shapes must fit exactly.

    Args:
        model: with adapters.
        folder: a PEFT adapter folder.

    Raises:
        UserError: no adapter there, or one that does not fit.
    """
    tensors = tensors_of_file(folder / WEIGHTS_FILE)
    stored = _stored(model)
    check_match(
        {name: tuple(parameter.shape) for name, parameter in stored.items()},
        {name: tensor.shape for name, tensor in tensors.items()},
        source=str(folder),
    )
    for name, parameter in stored.items():
        parameter.set_data(Tensor(np.ascontiguousarray(tensors[name].read())))


def _stored(model: CausalLM | ScalarModel) -> dict[str, Parameter]:
    """PEFT's names and our parameters of everything an adapter folder holds."""
    found = {}
    for name, update, _ in updates(model):
        for attribute, suffix in _STORED:
            if attribute != "magnitude" or update.has_magnitude:
                found[f"{_PREFIX}{name}.{suffix}"] = getattr(update, attribute)
    if isinstance(model, ScalarModel):
        found[f"{_PREFIX}{SCALAR_HEAD}"] = model.score.weight
    return found


def _shortest(names: list[str], model: CausalLM | ScalarModel) -> list[str]:
    """The last words of the names when those mean exactly the same projections, else the full names."""
    counts: dict[str, int] = {}
    for name in names:
        last = name.rpartition(".")[2]
        counts[last] = counts.get(last, 0) + 1
    if set(counts.values()) == {model.config.num_hidden_layers}:
        return sorted(counts)
    return sorted(names)


def _family(model: CausalLM | ScalarModel) -> Family:
    return MODELS.get(model.config.family)
