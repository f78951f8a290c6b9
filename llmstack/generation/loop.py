"""Prefill and the loop over new tokens, one graph."""

from __future__ import annotations

from collections.abc import Sequence

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from llmstack.generation.decoder import CachedDecoder


class DecodingLoop(nn.Cell):
    """Draws tokens until every row has drawn an end token or R tokens.

    A row that has ended goes on drawing: its tokens after the end mean nothing, and cost nothing while others go on.

    Args:
        decoder: the model with its caches.
        sampler: a Cell ``(logits_BV, temperature_1, uniform_B) -> (token_B, logp_B)``.
        max_new_tokens: R.
        eos_ids: every token that ends an answer; empty: none does.
    """

    def __init__(
        self, decoder: CachedDecoder, sampler: nn.Cell, *, max_new_tokens: int, eos_ids: Sequence[int]
    ) -> None:
        super().__init__(auto_prefix=False)  # the model's parameters keep the names they have in the model
        self.prompt_len, self.max_new_tokens = decoder.prompt_len, max_new_tokens
        self.decoder = decoder
        self.sampler = sampler
        self.ends_1N = Tensor(np.array([tuple(eos_ids) or (-1,)], np.int32))
        drawn = (max_new_tokens, decoder.batch_rows)
        self.tokens_RB = Parameter(ops.zeros(drawn, ms.int32), name="drawn.tokens", requires_grad=False)
        self.logp_RB = Parameter(ops.zeros(drawn, ms.float32), name="drawn.logp", requires_grad=False)
        self.write = ops.ScatterUpdate()

    def construct(
        self, tokens_BP: Tensor, lengths_B: Tensor, temperature: Tensor, uniforms_RB: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Answer every prompt.

        Args:
            tokens_BP: (B, P) int32, prompts padded on the left.
            lengths_B: (B,) int32, tokens of each prompt.
            temperature: (1,) float32, above 0.
            uniforms_RB: (R, B) float32 within (0, 1).

        Returns:
            ``(tokens_RB, logp_RB, steps)``: (R, B) int32 and float32, of which the first ``steps`` (int32 scalar) rows
            have been drawn in this call.
        """
        first_B = self.prompt_len - lengths_B
        logits_BV = self.decoder.prefill(tokens_BP, first_B)
        index = ops.zeros((1,), ms.int32)
        token_B = self._draw(logits_BV, temperature, uniforms_RB, index)
        ended_B = self._ends(token_B)
        steps = ops.ones((), ms.int32)
        while steps < self.max_new_tokens and not ended_B.all():
            logits_BV = self.decoder(token_B, first_B, self.prompt_len + index)
            index = index + 1
            token_B = self._draw(logits_BV, temperature, uniforms_RB, index)
            ended_B = ops.logical_or(ended_B, self._ends(token_B))
            steps = steps + 1
        return self.tokens_RB, self.logp_RB, steps

    def _draw(self, logits_BV: Tensor, temperature: Tensor, uniforms_RB: Tensor, index: Tensor) -> Tensor:
        uniform_B = ops.reshape(ops.gather(uniforms_RB, index, 0), (-1,))
        token_B, logp_B = self.sampler(logits_BV, temperature, uniform_B)
        self.write(self.tokens_RB, index, ops.expand_dims(token_B, 0))
        self.write(self.logp_RB, index, ops.expand_dims(logp_B, 0))
        return token_B

    def _ends(self, token_B: Tensor) -> Tensor:
        return ops.equal(ops.expand_dims(token_B, 1), self.ends_1N).any(1)
