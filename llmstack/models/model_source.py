"""A model to be rewritten: its configuration and its tensors, all checked against each other before any is read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llmstack.config.model import ModelConfig
from llmstack.errors import UserError
from llmstack.models.families import EMBEDDING, LANGUAGE_HEAD, SCALAR_HEAD, Family
from llmstack.models.hf_config import ModelKind, config_json, model_config, model_kind, read_json
from llmstack.models.score_statistics import KEY as SCORE_STATISTICS
from llmstack.models.tensor_files import drop_tied_copy, stored_weights
from llmstack.models.tensor_writer import STORED_WORDS, LazyTensor
from llmstack.models.weights import check_match
from llmstack.registry import MODELS

_TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
_KEPT: Mapping[ModelKind, tuple[str, ...]] = {"causal": _TOKEN_IDS, "scalar": (*_TOKEN_IDS, SCORE_STATISTICS)}


@dataclass(frozen=True)
class ModelSource:
    """A model that is complete and fits its configuration.

    Attributes:
        where: where it comes from, for messages.
        config: what its ``config.json`` says.
        kind: language model or one score.
        kept: what goes along from its ``config.json``: ``bos_token_id`` and the like, statistics of its scores.
        tensors: what is to be stored, in the order of the model.
        stored_as: parameters stored in each number format, e.g. ``{"BF16": 1000}``.
        generation: content of its ``generation_config.json``; empty without one.
    """

    where: str
    config: ModelConfig
    kind: ModelKind
    kept: dict[str, Any] = field(repr=False)
    tensors: tuple[LazyTensor, ...] = field(repr=False)
    stored_as: Mapping[str, int]
    generation: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def num_parameters(self) -> int:
        """Numbers in all tensors; a tied matrix counts once."""
        return sum(self.stored_as.values())

    @property
    def main_dtype(self) -> str:
        """The dtype most parameters are stored in, float32 when it is none that can be written."""
        word = max(self.stored_as, key=lambda key: self.stored_as[key])
        return next((dtype for dtype, theirs in STORED_WORDS.items() if theirs == word), "float32")

    def config_json(self, dtype: str) -> dict[str, Any]:
        """Content of the ``config.json`` of a rewritten folder: what is known of the model and nothing else.

        Args:
            dtype: how its weights are stored.
        """
        return config_json(self.config, self.kind) | self.kept | {"torch_dtype": dtype}


def folder_source(folder: Path) -> ModelSource:
    """A Hugging Face model folder.

    Args:
        folder: with ``config.json`` and safetensors weights.

    Raises:
        UserError: a file is missing, damaged or a pickle, or weights and configuration do not fit.
    """
    return _checked(folder, folder)


def file_source(path: Path) -> ModelSource:
    """One safetensors file with the ``config.json`` beside it.

    Args:
        path: the file.

    Raises:
        UserError: a file is missing or damaged, or weights and configuration do not fit.
    """
    return _checked(path.parent, path)


def _checked(folder: Path, weights: Path) -> ModelSource:
    """The model whose weights are in ``weights``, the folder itself or a file in it."""
    path, generation = folder / "config.json", folder / "generation_config.json"
    values = read_json(path)
    config, kind = model_config(values, where=str(path)), model_kind(values, where=str(path))
    tensors = stored_weights(weights)
    for tensor in tensors.values():
        tensor.check_dtype()
    _check_num_layers(config, len(tensors), path, str(weights))
    if config.tie_word_embeddings and kind == "causal":
        maps = {weight.name: weight for weight in MODELS.get(config.family).weight_maps(config)}
        drop_tied_copy(tensors, head=maps[LANGUAGE_HEAD].stored[0], embedding=maps[EMBEDDING].stored[0])
    formats: Counter[str] = Counter()
    for tensor in tensors.values():
        formats[tensor.dtype] += math.prod(tensor.shape)
    source = checked_source(values, tensors, formats, config_path=path, where=str(weights))
    return replace(source, generation=read_json(generation) if generation.is_file() else {})


def checked_source(
    values: Mapping[str, Any],
    tensors: Mapping[str, LazyTensor],
    stored_as: Mapping[str, int],
    *,
    config_path: Path,
    where: str,
) -> ModelSource:
    """A model whose tensors are exactly those its configuration asks for.

    Args:
        values: content of ``config.json``.
        tensors: every tensor by Hugging Face's name.
        stored_as: parameters stored in each number format.
        config_path: where the configuration comes from, for messages.
        where: where the tensors come from, for messages.

    Raises:
        UserError: a configuration that cannot be used, or tensors that are missing, unexpected or misshaped.
    """
    config, kind = model_config(values, where=str(config_path)), model_kind(values, where=str(config_path))
    _check_num_layers(config, len(tensors), config_path, where)
    expected = stored_shapes(config, kind)
    check_match(expected, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, source=where)
    return ModelSource(
        where=where,
        config=config,
        kind=kind,
        kept={key: values[key] for key in _KEPT[kind] if key in values},
        tensors=tuple(tensors[name] for name in expected),
        stored_as=stored_as,
    )


def _check_num_layers(config: ModelConfig, num_tensors: int, config_path: Path, where: str) -> None:
    """Keeps a made-up number of layers from filling the memory with their names."""
    if config.num_hidden_layers > num_tensors:
        raise UserError(
            f"{where}: expected weights of {config.num_hidden_layers} layers as {config_path} says, got {num_tensors} "
            "tensors in all. Copy the whole model."
        )


def stored_shapes(config: ModelConfig, kind: ModelKind) -> dict[str, tuple[int, ...]]:
    """The tensors of a model folder: names and shapes, the embedding first, then layer by layer, the head last.

    Args:
        config: the model's sizes.
        kind: language model or one score.
    """
    family: Family = MODELS.get(config.family)
    head = SCALAR_HEAD if kind == "scalar" else None if config.tie_word_embeddings else LANGUAGE_HEAD
    absent = {LANGUAGE_HEAD, SCALAR_HEAD} - {head}
    maps = sorted(family.weight_maps(config), key=lambda weight: weight.name != EMBEDDING)
    return {
        name: (rows, *_columns(name, config))
        for weight in maps
        if weight.name not in absent
        for name, rows in zip(weight.stored, weight.rows, strict=True)
    }


def _columns(name: str, config: ModelConfig) -> tuple[int, ...]:
    """What follows the rows in the shape of a stored tensor."""
    *_, part, kind = name.split(".")
    if kind == "bias" or part.endswith("norm"):
        return ()
    widths = {"o_proj": config.num_attention_heads * config.head_dim, "down_proj": config.intermediate_size}
    return (widths.get(part, config.hidden_size),)
