"""The model's own weights run with a KV cache: a prompt at once, then one token a row at a time."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.generation import kernels
from llmstack.generation.composed import CacheSizes
from llmstack.models.causal_lm import CausalLM
from llmstack.nn.block import DecoderBlock
from llmstack.nn.graph_reuse import share_graph


class _CachedBlock(nn.Cell):
    """One layer with its cache; the same graph for every layer of a model.

    Args:
        block: the model's own layer.
        cache: its keys and values.
        facts: what else its construct depends on.
    """

    def __init__(self, block: DecoderBlock, cache: nn.Cell, *facts: Any) -> None:
        super().__init__(auto_prefix=False)  # the cell taken in is the model's: its parameters keep their names
        self.block, self.cache = block, cache
        share_graph(self, block.cell_init_args, type(cache), *facts)

    def _heads(self, hidden_ND: Tensor) -> Tensor:
        return self.block.attention.heads(self.block.attention_norm(hidden_ND))

    def _leave(self, hidden_ND: Tensor, merged: Tensor) -> Tensor:
        """The layer's output from its input and the attention heads' result."""
        hidden_ND = hidden_ND + self.block.attention.out(merged)
        return hidden_ND + self.block.mlp(self.block.mlp_norm(hidden_ND))


class PromptBlock(_CachedBlock):
    """Runs whole prompts through a layer and fills its cache.

    Args:
        block: the model's own layer.
        cache: its keys and values.
        sizes: of the cache.
        prompt_len: slots P of a prompt.
        last: whether only the last token of each prompt goes on.
    """

    def __init__(self, block: DecoderBlock, cache: nn.Cell, sizes: CacheSizes, *, prompt_len: int, last: bool) -> None:
        super().__init__(block, cache, sizes, prompt_len, last)
        self.last = last
        self.last_rows = Tensor(np.arange(1, sizes.batch_rows + 1, dtype=np.int32) * prompt_len - 1)

    def construct(self, hidden_ND: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Apply the layer.

        Args:
            hidden_ND: (B*P, D) float32, residual stream.
            cos: (B*P, E/2) float32.
            sin: (B*P, E/2) float32.
            mask: which tokens see which, from :func:`llmstack.nn.kernels.attention_mask`.

        Returns:
            (B*P, D) float32, or (B, D) of the last tokens.
        """
        qkv = self._heads(hidden_ND)
        self.cache.fill(qkv, cos, sin)
        merged = self.block.attention.kernel(qkv, cos, sin, mask)
        if self.last:
            merged, hidden_ND = ops.gather(merged, self.last_rows, 0), ops.gather(hidden_ND, self.last_rows, 0)
        return self._leave(hidden_ND, merged)


class TokenBlock(_CachedBlock):
    """Runs one token of each row through a layer.

    Args:
        block: the model's own layer.
        cache: its keys and values.
        sizes: of the cache.
    """

    def __init__(self, block: DecoderBlock, cache: nn.Cell, sizes: CacheSizes) -> None:
        super().__init__(block, cache, sizes)

    def construct(self, hidden_BD: Tensor, cos: Tensor, sin: Tensor, slot: Tensor, view: Tensor) -> Tensor:
        """Apply the layer.

        Args:
            hidden_BD: (B, D) float32, residual stream.
            cos: (B, E/2) float32.
            sin: (B, E/2) float32.
            slot: (1,) int32, slot of the token.
            view: which slots it sees, from :func:`llmstack.generation.kernels.cache_view`.

        Returns:
            (B, D) float32.
        """
        return self._leave(hidden_BD, self.cache(self._heads(hidden_BD), cos, sin, slot, view))


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
        self.caches = (
            nn.CellList([kernels.cache(sizes) for _ in range(config.num_hidden_layers)]) if caches is None else caches
        )
        self.view = kernels.cache_view(context_len, config.sliding_window)
        self.prompt_slots = Tensor(np.arange(prompt_len, dtype=np.int32)[None])
        layers = list(zip(self.trunk.blocks, self.caches, strict=True))
        self.prompt_blocks = nn.CellList(
            [
                PromptBlock(block, cache, sizes, prompt_len=prompt_len, last=number == len(layers))
                for number, (block, cache) in enumerate(layers, start=1)
            ],
            auto_prefix=False,
        )
        self.token_blocks = nn.CellList([TokenBlock(block, cache, sizes) for block, cache in layers], auto_prefix=False)

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
        for block in self.prompt_blocks:
            hidden_ND = block(hidden_ND, cos, sin, mask)
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
        for block in self.token_blocks:
            hidden_BD = block(hidden_BD, cos, sin, slot, view)
        return self._logits(hidden_BD)

    def _logits(self, hidden_BD: Tensor) -> Tensor:
        return self.head(self.trunk.norm(hidden_BD))
