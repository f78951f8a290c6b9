"""Hugging Face model folders in and out: ``config.json`` and safetensors weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from mindspore import Tensor, nn
from pydantic import ValidationError

from llmstack.config.model import ModelConfig
from llmstack.errors import UserError
from llmstack.models.causal_lm import CausalLM
from llmstack.models.families import EMBEDDING, LANGUAGE_HEAD, Family
from llmstack.models.scalar_model import ScalarModel
from llmstack.models.tensor_files import STORED_BYTES, StoredTensor, stored_tensors, write_tensors
from llmstack.models.weights import check_match, export_arrays
from llmstack.registry import MODELS

MAX_SHARD_BYTES = 5_000_000_000
# Buffers that old exports stored beside the weights; they follow from config.json
_DERIVED_SUFFIX = ".rotary_emb.inv_freq"


def build_causal(config: ModelConfig, *, seed: int) -> CausalLM:
    """The language model of a configuration, with initial weights.

    Args:
        config: family and sizes.
        seed: of the initial weights.

    Raises:
        UserError: unknown family, or no vocabulary size.
    """
    return MODELS.get(config.family).causal(config, seed=seed)


def build_scalar(config: ModelConfig, *, seed: int) -> ScalarModel:
    """The reward or value model of a configuration, with initial weights.

    Args:
        config: family and sizes.
        seed: of the initial weights.

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
        model: what to write.
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
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    family: Family = MODELS.get(model.config.family)
    arrays = export_arrays(model)
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
    _write_json(folder / "config.json", _config_json(model, family) | special | {"torch_dtype": dtype})
    if isinstance(model, CausalLM):
        _write_json(folder / "generation_config.json", special)


def read_config(folder: str | Path) -> ModelConfig:
    """The configuration of a model folder.

    Args:
        folder: a Hugging Face model folder.

    Raises:
        UserError: no or broken ``config.json``, a family that is not registered, or a feature it does not implement.
    """
    path = Path(folder) / "config.json"
    values = _read_json(path)
    name = values.get("model_type")
    if not isinstance(name, str) or name not in MODELS:
        raise UserError(
            f"{path}: model_type: expected one of {', '.join(MODELS.names())}, got {name!r}. "
            "Use a model of a known family, or register its family in a plugin."
        )
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    plain_rope = rope.get("rope_type", rope.get("type", "default")) == "default"
    values = {**values, "rope_scaling": None if plain_rope else rope}
    for key, only in MODELS.get(name).fixed.items():
        if values.get(key, only) != only:
            raise UserError(
                f"{path}: {key}: expected {only!r}, the only value implemented for {name}, got {values[key]!r}. "
                "Use a model without it."
            )
    heads = values.get("num_attention_heads")
    defaults = {
        "num_key_value_heads": heads,
        "head_dim": values["hidden_size"] // heads if heads and "hidden_size" in values else None,
        "rope_theta": rope.get("rope_theta", 10000.0),
        "tie_word_embeddings": False,
        "initializer_range": 0.02,
    }
    fields = set(ModelConfig.model_fields) - {"family"}
    known = {key: values[key] for key in fields if values.get(key) is not None}
    try:
        return ModelConfig(family=name, **{**defaults, **known})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise UserError(f"{path}: expected the sizes of a {name} model, got {problems}. Correct the file.") from error


def folder_kind(folder: str | Path) -> Literal["causal", "scalar"]:
    """Whether a model folder holds a language model or one with a scalar head.

    Args:
        folder: a Hugging Face model folder.

    Raises:
        UserError: ``config.json`` names an architecture that is neither.
    """
    family: Family = MODELS.get(read_config(folder).family)
    architectures = _read_json(Path(folder) / "config.json").get("architectures") or []
    if family.causal_architecture in architectures:
        return "causal"
    if family.scalar_architecture in architectures:
        return "scalar"
    raise UserError(
        f"{Path(folder) / 'config.json'}: architectures: expected {family.causal_architecture} or "
        f"{family.scalar_architecture}, got {architectures}. Use a folder of one of these."
    )


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
    tensors = {name: t for name, t in stored_tensors(folder).items() if not name.endswith(_DERIVED_SUFFIX)}
    if trunk_only:
        parameters = {name: value for name, value in parameters.items() if name not in family.head_names}
        tensors = {name: t for name, t in tensors.items() if name not in family.head_names.values()}
    elif LANGUAGE_HEAD not in parameters and isinstance(model, CausalLM):
        _drop_tied_copy(tensors, family)
    expected = {
        stored: (rows,) + tuple(parameter.shape[1:])
        for name, parameter in parameters.items()
        for stored, rows in zip(maps[name].stored, maps[name].rows, strict=True)
    }
    check_match(expected, {name: tensor.shape for name, tensor in tensors.items()}, source=str(folder))
    for name, parameter in parameters.items():
        rows = [tensors[stored].read() for stored in maps[name].stored]
        parameter.set_data(Tensor(np.ascontiguousarray(np.concatenate(rows))))


def _drop_tied_copy(tensors: dict[str, StoredTensor], family: Family) -> None:
    """Forget a stored head that repeats the embedding: some exporters write a tied matrix twice."""
    head = tensors.get(family.head_names[LANGUAGE_HEAD])
    embedding = tensors.get(family.trunk_names[EMBEDDING])
    if head and embedding and head.shape == embedding.shape and np.array_equal(head.read(), embedding.read()):
        del tensors[head.name]


def _config_json(model: nn.Cell, family: Family) -> dict[str, Any]:
    is_scalar = isinstance(model, ScalarModel)
    sizes = model.config.model_dump(exclude={"family"})
    implemented = {key: value for key, value in family.fixed.items() if value is not None}
    labels: dict[str, Any] = {"id2label": {"0": "score"}, "label2id": {"score": 0}} if is_scalar else {}
    architecture = family.scalar_architecture if is_scalar else family.causal_architecture
    return {"architectures": [architecture], "model_type": family.name} | implemented | sizes | labels


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: expected a file, got none. Name a Hugging Face model folder.") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path}: expected JSON, got {error}. Correct the file.") from error
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected a JSON object, got {type(values).__name__}. Correct the file.")
    return values


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
