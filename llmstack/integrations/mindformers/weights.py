"""Weights under MindFormers' names, to and from Hugging Face's names; numpy alone.

MindFormers' mcore network fuses the query, key and value projections into one matrix and the gate and up projections
into another. In its default layout the rows are interleaved, so that a matrix cut for tensor parallelism stays whole
groups: for each key/value head its query heads, its key head, its value head; for each channel its gate row, its up
row. With ``use_contiguous_weight_layout_attention`` or without ``use_interleaved_weight_layout_mlp`` the parts follow
one another whole, and the shapes are the same: which of the two a file has cannot be seen from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmstack.config.model import ModelConfig

_WHOLE_NAMES = {
    "embedding.word_embeddings.weight": "model.embed_tokens.weight",
    "decoder.final_layernorm.weight": "model.norm.weight",
    "output_layer.weight": "lm_head.weight",
    "score.weight": "score.weight",
}
_LAYER_NAMES = {
    "input_layernorm.weight": ("input_layernorm.weight",),
    "self_attention.linear_qkv.weight": tuple(f"self_attn.{part}_proj.weight" for part in "qkv"),
    "self_attention.linear_qkv.bias": tuple(f"self_attn.{part}_proj.bias" for part in "qkv"),
    "self_attention.q_layernorm.weight": ("self_attn.q_norm.weight",),
    "self_attention.k_layernorm.weight": ("self_attn.k_norm.weight",),
    "self_attention.linear_proj.weight": ("self_attn.o_proj.weight",),
    "pre_mlp_layernorm.weight": ("post_attention_layernorm.weight",),
    "mlp.linear_fc1.weight": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "mlp.linear_fc2.weight": ("mlp.down_proj.weight",),
}
_LAYER = re.compile(r"^decoder\.layers\.(\d+)\.(.+)$")


@dataclass(frozen=True)
class FusedLayout:
    """How a MindFormers network orders the rows of its fused matrices.

    Attributes:
        contiguous_attention: its ``use_contiguous_weight_layout_attention``: all queries, all keys, all values.
        interleaved_mlp: its ``use_interleaved_weight_layout_mlp``: gate and up rows in turn.
    """

    contiguous_attention: bool = False
    interleaved_mlp: bool = True

    def cut(self, name: str, config: ModelConfig) -> tuple[int, tuple[int, ...]]:
        """How a fused matrix falls into parts.

        Args:
            name: a MindFormers name.
            config: the model's sizes.

        Returns:
            The number of groups of rows, and in each group the rows of each part; ``(1, ())`` for a matrix of one part.
        """
        if ".linear_qkv." in name:
            groups = 1 if self.contiguous_attention else config.num_key_value_heads
            query_rows = config.num_attention_heads * config.head_dim // groups
            kv_rows = config.num_key_value_heads * config.head_dim // groups
            return groups, (query_rows, kv_rows, kv_rows)
        if ".linear_fc1." in name:
            groups = config.intermediate_size if self.interleaved_mlp else 1
            return groups, (config.intermediate_size // groups,) * 2
        return 1, ()


DEFAULT_LAYOUT = FusedLayout()


def interleave(parts: Sequence[np.ndarray], groups: int) -> np.ndarray:
    """Puts the rows of several matrices into one, group by group.

    Args:
        parts: matrices or vectors that agree in all but their number of rows, each a multiple of ``groups``.
        groups: how many groups of rows each part is cut into.

    Returns:
        Group 0 of the first part, of the second, ..., group 1 of the first part, and so on.
    """
    grouped = [part.reshape(groups, -1, *part.shape[1:]) for part in parts]
    return np.concatenate(grouped, axis=1).reshape(-1, *parts[0].shape[1:])


def separate(fused: np.ndarray, groups: int, rows: Sequence[int]) -> list[np.ndarray]:
    """Undoes :func:`interleave`.

    Args:
        fused: what it gave.
        groups: how many groups there are.
        rows: rows of each part in a group.

    Returns:
        The parts.
    """
    grouped = fused.reshape(groups, -1, *fused.shape[1:])
    return [
        np.ascontiguousarray(part.reshape(-1, *fused.shape[1:]))
        for part in np.split(grouped, np.cumsum(rows)[:-1], axis=1)
    ]


def stored_names(name: str) -> tuple[str, ...] | None:
    """The Hugging Face tensors that one MindFormers parameter is made of, in order; None for a name that is not known.

    Args:
        name: a MindFormers name, e.g. ``decoder.layers.0.mlp.linear_fc1.weight``.
    """
    if name in _WHOLE_NAMES:
        return (_WHOLE_NAMES[name],)
    layer = _LAYER.match(name)
    if layer is None or layer[2] not in _LAYER_NAMES:
        return None
    return tuple(f"model.layers.{layer[1]}.{part}" for part in _LAYER_NAMES[layer[2]])


def names_for(stored: Iterable[str]) -> list[str]:
    """The MindFormers parameters that a set of Hugging Face tensors fills.

    Args:
        stored: Hugging Face names.

    Returns:
        MindFormers names, in the order of ``stored``; a tensor that belongs to none is left out.
    """
    found = []
    for name in stored:
        layer = re.match(r"^model\.layers\.(\d+)\.(.+)$", name)
        for ours, theirs in _WHOLE_NAMES.items():
            if theirs == name:
                found.append(ours)
        for ours, parts in _LAYER_NAMES.items():
            if layer is not None and layer[2] == parts[0]:
                found.append(f"decoder.layers.{layer[1]}.{ours}")
    return found


def to_mindformers(
    stored: Mapping[str, np.ndarray], config: ModelConfig, layout: FusedLayout = DEFAULT_LAYOUT
) -> dict[str, np.ndarray]:
    """Weights under MindFormers' names.

    Args:
        stored: Hugging Face name -> array, complete layers of a Llama-like model.
        config: the model's sizes.
        layout: order of the fused rows.

    Returns:
        MindFormers name -> array.

    Raises:
        KeyError: a part of a fused matrix is missing.
    """
    arrays = {}
    for name in names_for(stored):
        parts = [stored[part] for part in stored_names(name) or ()]
        arrays[name] = interleave(parts, layout.cut(name, config)[0]) if len(parts) > 1 else parts[0]
    return arrays


def from_mindformers(
    arrays: Mapping[str, np.ndarray], config: ModelConfig, layout: FusedLayout = DEFAULT_LAYOUT
) -> dict[str, np.ndarray]:
    """Weights under Hugging Face's names.

    Args:
        arrays: MindFormers name -> array; every name must be known (:func:`stored_names`).
        config: the model's sizes.
        layout: order of the fused rows.

    Returns:
        Hugging Face name -> array.

    Raises:
        KeyError: a name that is not known.
    """
    stored: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        names = stored_names(name)
        if names is None:
            raise KeyError(name)
        groups, rows = layout.cut(name, config)
        stored.update(zip(names, separate(array, groups, rows) if rows else [array], strict=True))
    return stored
