"""The tensors of a GGUF file under Hugging Face's names, with the rows in Hugging Face's order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from llmstack.models.gguf.reader import GgufFile, GgufTensor

TRUNK = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ROPE_FACTORS = "rope_freqs.weight"
"""No weight: what the rotary frequencies are divided by, which config.json says as ``rope_scaling``."""
_LAYER_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
# The converter reorders the rows of these for the architectures here, so that rotary pairs lie side by side
_PERMUTED_ARCHITECTURES = ("llama",)


@dataclass(frozen=True)
class ImportedTensor:
    """A tensor of a GGUF file as the Hugging Face folder has it.

    Attributes:
        name: Hugging Face's name.
        source: the stored tensor.
        permuted_heads: number of heads whose rows the converter reordered; 0: rows are as they were.
    """

    name: str
    source: GgufTensor
    permuted_heads: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.source.shape

    def read(self) -> np.ndarray:
        """Its numbers as a float32 array of its shape, rows in Hugging Face's order."""
        array = self.source.read()
        return undo_permutation(array, self.permuted_heads) if self.permuted_heads else array


def undo_permutation(array: np.ndarray, num_heads: int) -> np.ndarray:
    """Put the rows of a query or key projection back into Hugging Face's order.

    llama.cpp rotates neighbouring rows (0 with 1, 2 with 3 ...) where Hugging Face's Llama rotates row e with row
    e + E/2 of each head. The converter therefore interleaves the two halves of each head; this takes them apart.

    Args:
        array: (H*E, D) weight or (H*E,) bias.
        num_heads: H.

    Returns:
        The same shape.
    """
    halves = array.reshape(num_heads, array.shape[0] // num_heads // 2, 2, *array.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(array.shape)


def hugging_face_tensors(file: GgufFile, config: dict[str, Any]) -> dict[str, ImportedTensor]:
    """Every weight of a GGUF file by Hugging Face's name. A tensor without one keeps its own name.

    Args:
        file: the file.
        config: content of the model's ``config.json``; says how many heads there are.
    """
    permuted = file.metadata["general.architecture"] in _PERMUTED_ARCHITECTURES
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]} if permuted else {}
    tensors = {}
    for name, tensor in file.tensors.items():
        if name == ROPE_FACTORS:
            continue
        stem, _, kind = name.rpartition(".")
        num_heads = 0
        theirs = f"{TRUNK[stem]}.{kind}" if stem in TRUNK else name
        match = _LAYER_NAME.fullmatch(name)
        if match and match[2] in LAYER:
            theirs = f"model.layers.{int(match[1])}.{LAYER[match[2]]}.{match[3]}"
            num_heads = heads.get(match[2], 0)
        tensors[theirs] = ImportedTensor(theirs, tensor, num_heads)
    return tensors
