"""The model's own weights run with a KV cache: a prompt at once, then one token a row at a time."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.generation import kernels
from llmstack.generation.composed import CacheSizes
from llmstack.models.causal_lm import CausalLM
from llmstack.nn.block import DecoderBlock


class CachedDecoder(nn.Cell):
    """A causal language model's trunk and head with cached keys and values.

    It holds the model's own cells, so there is one set of weights and an update of them is seen by the next call.

    Args:
        model: the language model.
        batch_rows: rows B.
        prompt_len: slots P of a prompt.
        context_len: slots T, prompt and answer together.
        caches: of another decoder of this model with the same rows and slots, to go on from what it has read; None
            makes new ones.
    """

    def __init__(
        self,
        model: CausalLM,
        *,
        batch_rows: int,
        prompt_len: int,
        context_len: int,
        caches: nn.CellList | None = None,
    ) -> None:
        # the cells taken in are the model's: their parameters keep the names they have there
        super().__init__(auto_prefix=False)
        config = model.config
        sizes = CacheSizes(
            batch_rows=batch_rows,
            context_len=context_len,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
        )
        self.batch_rows, self.prompt_len = batch_rows, prompt_len
        self.trunk = model.trunk
        self.head = model.head
        self.num_layers = config.num_hidden_layers
        self.caches = nn.CellList([kernels.cache(sizes) for _ in range(self.num_layers)]) if caches is None else caches
        self.view = kernels.cache_view(context_len, config.sliding_window)
        self.prompt_slots = Tensor(np.arange(prompt_len, dtype=np.int32)[None])
        self.last_rows = Tensor(np.arange(1, batch_rows + 1, dtype=np.int32) * prompt_len - 1)

    def real(self, first_B: Tensor) -> Tensor:
        """Which slots of the prompts hold a token.

        Args:
            first_B: (B,) int32, index of each row's first real token.

        Returns:
            (B, P) float32, 1 on tokens and 0 on padding.
        """
        return ops.cast(ops.greater_equal(self.prompt_slots, ops.expand_dims(first_B, 1)), ms.float32)

    def prefill(self, tokens_BP: Tensor, first_B: Tensor) -> Tensor:
        """Run the prompts and fill the caches.

        Args:
            tokens_BP: (B, P) int32, padded on the left.
            first_B: (B,) int32, index of each row's first real token.

        Returns:
            (B, V) float32, logits of the token after the prompt.
        """
        first_B1 = ops.expand_dims(first_B, 1)
        mask = self.trunk.mask(ops.cast(ops.greater_equal(self.prompt_slots, first_B1), ms.int32))
        cos, sin = self.trunk.rotary(ops.relu(self.prompt_slots - first_B1))
        hidden_ND = self.trunk.embed(tokens_BP)
        for layer in range(self.num_layers):
            block = self.trunk.blocks[layer]
            qkv = self._qkv(block, hidden_ND)
            self.caches[layer].fill(qkv, cos, sin)
            merged = block.attention.kernel(qkv, cos, sin, mask)
            if layer == self.num_layers - 1:  # nobody reads the other tokens any more
                merged, hidden_ND = ops.gather(merged, self.last_rows, 0), ops.gather(hidden_ND, self.last_rows, 0)
            hidden_ND = self._leave(block, hidden_ND, merged)
        return self._logits(hidden_ND)

    def construct(self, tokens_B: Tensor, first_B: Tensor, slot: Tensor) -> Tensor:
        """Run one more token of each row.

        Args:
            tokens_B: (B,) int32.
            first_B: (B,) int32, slot of each row's first real token.
            slot: (1,) int32, slot of the new token.

        Returns:
            (B, V) float32, logits of the token after it.
        """
        cos, sin = self.trunk.rotary(slot - first_B)
        view = self.view(first_B, slot)
        hidden_BD = self.trunk.embed(tokens_B)
        for layer in range(self.num_layers):
            block = self.trunk.blocks[layer]
            merged = self.caches[layer](self._qkv(block, hidden_BD), cos, sin, slot, view)
            hidden_BD = self._leave(block, hidden_BD, merged)
        return self._logits(hidden_BD)

    def _qkv(self, block: DecoderBlock, hidden_ND: Tensor) -> Tensor:
        return block.attention.heads(block.attention_norm(hidden_ND))

    def _leave(self, block: DecoderBlock, hidden_ND: Tensor, merged: Tensor) -> Tensor:
        """The block's output from its input and the attention heads' result."""
        hidden_ND = hidden_ND + block.attention.out(merged)
        return hidden_ND + block.mlp(block.mlp_norm(hidden_ND))

    def _logits(self, hidden_BD: Tensor) -> Tensor:
        return self.head(self.trunk.norm(hidden_BD))
