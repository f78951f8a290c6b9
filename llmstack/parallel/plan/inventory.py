"""The tensors of a network: names and shapes as the Cells make them, and which of their dimensions is cut."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from llmstack.config.lora import LoraConfig
from llmstack.config.model import ModelConfig, vocab_size_of
from llmstack.models.adapter_files import Targets
from llmstack.models.families import EMBEDDING, LANGUAGE_HEAD, SCALAR_HEAD, Family
from llmstack.registry import MODELS

Head = Literal["language", "scalar", "both"]
Place = Literal["first", "block", "last"]

VALUE_HEAD = "value_head.weight"
"""The value head beside a language head on one trunk."""


@dataclass(frozen=True)
class TensorSpec:
    """A Parameter of a network, or several that are alike but for the layer they are in.

    Attributes:
        name: structural name; that of the first layer when it stands for several.
        shape: of the whole tensor.
        group: embedding, attention, feed-forward, norms, head or adapters.
        cut: the dimension that tensor ranks share; None: each holds the whole.
        place: in the first part of a pipeline, in a layer, or in the last part.
        trained: whether it has a gradient.
        copies: how many tensors it stands for.
    """

    name: str
    shape: tuple[int, ...]
    group: str
    cut: int | None
    place: Place
    trained: bool
    copies: int = 1

    @property
    def size(self) -> int:
        """Numbers in all copies."""
        return math.prod(self.shape) * self.copies


@lru_cache(maxsize=256)
def tensors_of(model: ModelConfig, head: Head, lora: LoraConfig | None = None) -> tuple[TensorSpec, ...]:
    """Every Parameter of a network.

    Args:
        model: the sizes, with a vocabulary.
        head: language; scalar (reward and value models); both (a policy with a value head).
        lora: adapters on the frozen model; None: all of it is trained.

    Returns:
        One entry a Parameter.
    """
    frozen, width, vocab = lora is not None, model.hidden_size, vocab_size_of(model)
    found = [TensorSpec(EMBEDDING, (vocab, width), "embedding", 0, "first", not frozen)]
    family: Family = MODELS.get(model.family)
    targets = Targets(lora.target_modules) if lora else None
    stored = {weight.name: weight for weight in family.weight_maps(model)}
    for layer in range(model.num_hidden_layers):
        prefix = f"trunk.blocks.{layer}."
        for name, shape, group, cut in _block(model):
            found.append(TensorSpec(prefix + name, shape, group, cut, "block", not frozen))
            if lora is None or targets is None or not name.endswith(".weight") or len(shape) == 1:
                continue
            weight, number = stored[prefix + name], 0
            for projection, rows in zip(weight.stored, weight.rows, strict=True):
                if targets.match(projection.removesuffix(".weight")):
                    update = f"{prefix}{name.removesuffix('weight')}updates.{number}."
                    found += _adapter(update, rows, shape[1], lora, cut)
                    number += 1
    found.append(TensorSpec("trunk.norm.weight", (width,), "norms", None, "last", not frozen))
    if head in ("language", "both") and not model.tie_word_embeddings:
        found.append(TensorSpec(LANGUAGE_HEAD, (vocab, width), "head", 0, "last", not frozen))
    if head != "language":
        name = SCALAR_HEAD if head == "scalar" else VALUE_HEAD
        found.append(TensorSpec(name, (1, width), "head", None, "last", True))
    return tuple(found)


@lru_cache(maxsize=256)
def alike(model: ModelConfig, head: Head, lora: LoraConfig | None = None) -> tuple[TensorSpec, ...]:
    """The same with equal tensors of different layers counted together, for sums over deep models.

    Args:
        model: the sizes, with a vocabulary.
        head: as in :func:`tensors_of`.
        lora: as there.
    """
    first: dict[tuple[object, ...], TensorSpec] = {}
    copies: Counter[tuple[object, ...]] = Counter()
    for spec in tensors_of(model, head, lora):
        key = (spec.shape, spec.group, spec.cut, spec.place, spec.trained)
        first.setdefault(key, spec)
        copies[key] += 1
    return tuple(
        TensorSpec(spec.name, spec.shape, spec.group, spec.cut, spec.place, spec.trained, copies[key])
        for key, spec in first.items()
    )


def _block(model: ModelConfig) -> list[tuple[str, tuple[int, ...], str, int | None]]:
    """Name, shape, group and cut of what one layer has."""
    width, mlp, head = model.hidden_size, model.intermediate_size, model.head_dim
    query = model.num_attention_heads * head
    qkv = query + 2 * model.num_key_value_heads * head
    linears = (
        ("attention.qkv", qkv, width, "attention", 0, model.attention_bias),
        ("attention.out", width, query, "attention", 1, model.attention_out_bias),
        ("mlp.gate_up", 2 * mlp, width, "feed-forward", 0, model.mlp_bias),
        ("mlp.down", width, mlp, "feed-forward", 1, model.mlp_bias),
    )
    found: list[tuple[str, tuple[int, ...], str, int | None]] = []
    for name, outputs, inputs, group, cut, has_bias in linears:
        found.append((f"{name}.weight", (outputs, inputs), group, cut))
        if has_bias:  # the sum over cut inputs is whole, and so is what is added to it
            found.append((f"{name}.bias", (outputs,), group, 0 if cut == 0 else None))
    norms = ["attention_norm", "mlp_norm"]
    found += [(f"{name}.weight", (width,), "norms", None) for name in norms]
    if model.qk_norm:
        found += [(f"attention.head_norms.{name}.weight", (head,), "norms", None) for name in ("query", "key")]
    return found


def _adapter(prefix: str, outputs: int, inputs: int, lora: LoraConfig, cut: int | None) -> list[TensorSpec]:
    """B is cut where the weight's outputs are, A where its inputs are."""
    parts: list[tuple[str, tuple[int, ...], int | None]] = [
        ("a", (lora.rank, inputs), 1 if cut == 1 else None),
        ("b", (outputs, lora.rank), 0 if cut == 0 else None),
    ]
    if lora.dora:
        parts.append(("magnitude", (outputs,), 0 if cut == 0 else None))
    return [TensorSpec(prefix + name, shape, "adapters", where, "block", True) for name, shape, where in parts]
