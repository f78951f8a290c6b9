"""Hugging Face model folders in and out: ``config.json`` and safetensors weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mindspore import Tensor

from llmstack.config.model import ModelConfig
from llmstack.errors import UserError
from llmstack.models.adapters import merged_arrays
from llmstack.models.causal_lm import CausalLM
from llmstack.models.families import EMBEDDING, LANGUAGE_HEAD, SCALAR_HEAD, Family
from llmstack.models.hf_config import ModelKind, config_json, write_json
from llmstack.models.scalar_model import ScalarModel
from llmstack.models.tensor_files import drop_tied_copy, stored_weights, write_tensors
from llmstack.models.tensor_writer import STORED_BYTES
from llmstack.models.weights import check_match
from llmstack.registry import MODELS

MAX_SHARD_BYTES = 5_000_000_000


def build_causal(config: ModelConfig, *, seed: int | None) -> CausalLM:
    """The language model of a configuration, with initial weights.

    Args:
        config: family and sizes.
        seed: of the initial weights; None leaves them to be loaded.

    Raises:
        UserError: unknown family, or no vocabulary size.
    """
    return MODELS.get(config.family).causal(config, seed=seed)


def build_scalar(config: ModelConfig, *, seed: int | None) -> ScalarModel:
    """The reward or value model of a configuration, with initial weights.

    Args:
        config: family and sizes.
        seed: of the initial weights; None leaves them to be loaded.

    Raises:
        UserError: unknown family, or no vocabulary size.
    """
    return MODELS.get(config.family).scalar(config, seed=seed)


def save_model(
    model: CausalLM | ScalarModel,
    folder: str | Path,
    *,
    dtype: str = "float32",
    eos_ids: Sequence[int] = (),
    pad_id: int | None = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> None:
    """Write a folder that transformers loads: ``config.json``, weights, ``generation_config.json`` of a language model.

    Args:
        model: what to write, of any provider; adapters are merged into the weights written.
        folder: made when missing; files of the same names are replaced.
        dtype: how weights are stored: ``float32``, ``float16`` or ``bfloat16``.
        eos_ids: every token that ends an answer.
        pad_id: the padding token; a scalar model needs it in transformers for batches of more than one row.
        max_shard_bytes: weights above this are cut into several files.

    Raises:
        UserError: a dtype that is none of the three.
    """
    if dtype not in STORED_BYTES:
        raise UserError(f"dtype: expected one of {', '.join(STORED_BYTES)}, got {dtype!r}. Choose one of these.")
    model = model.native()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    family: Family = MODELS.get(model.config.family)
    arrays = merged_arrays(model)
    stored: list[tuple[str, np.ndarray]] = []
    for weight in family.weight_maps(model.config):
        if weight.name in arrays:
            cuts = np.cumsum(weight.rows)[:-1]
            stored.extend(zip(weight.stored, np.split(arrays[weight.name], cuts), strict=True))
    write_tensors(stored, folder, dtype=dtype, max_shard_bytes=max_shard_bytes)
    special = {
        "bos_token_id": None,
        "eos_token_id": list(eos_ids) if len(eos_ids) > 1 else next(iter(eos_ids), None),
        "pad_token_id": pad_id,
    }
    kind: ModelKind = "scalar" if isinstance(model, ScalarModel) else "causal"
    write_json(folder / "config.json", config_json(model.config, kind) | special | {"torch_dtype": dtype})
    if kind == "causal":
        write_json(folder / "generation_config.json", special)


def load_weights(model: CausalLM | ScalarModel, folder: str | Path, *, trunk_only: bool = False) -> None:
    """Set a model's parameters from a folder. Everything must fit: names, shapes, nothing left over.

    Args:
        model: takes the weights; compiled graphs that use it see the new ones.
        folder: a Hugging Face model folder of the model's family.
        trunk_only: leave the model's head as it is and the folder's head unread (a scalar model that starts from a
            language model).

    Raises:
        UserError: weights missing, unexpected or misshaped (all are listed), or a file that cannot be read.
    """
    folder = Path(folder)
    parameters = dict(model.parameters_and_names())
    family: Family = MODELS.get(model.config.family)
    maps = {weight.name: weight for weight in family.weight_maps(model.config)}
    tensors = stored_weights(folder)
    if trunk_only:
        heads = (LANGUAGE_HEAD, SCALAR_HEAD)
        stored_heads = {name for head in heads for name in maps[head].stored}
        parameters = {name: value for name, value in parameters.items() if name not in heads}
        tensors = {name: t for name, t in tensors.items() if name not in stored_heads}
    elif LANGUAGE_HEAD not in parameters and isinstance(model, CausalLM):
        drop_tied_copy(tensors, head=maps[LANGUAGE_HEAD].stored[0], embedding=maps[EMBEDDING].stored[0])
    expected = {
        stored: (rows,) + tuple(parameter.shape[1:])
        for name, parameter in parameters.items()
        for stored, rows in zip(maps[name].stored, maps[name].rows, strict=True)
    }
    check_match(expected, {name: tensor.shape for name, tensor in tensors.items()}, source=str(folder))
    for name, parameter in parameters.items():
        rows = [tensors[stored].read() for stored in maps[name].stored]
        parameter.set_data(Tensor(np.ascontiguousarray(np.concatenate(rows))))
