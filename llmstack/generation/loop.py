"""Prefill and the loop over new tokens: as one graph, or as two so that the caller sees tokens as they come."""

from __future__ import annotations

from collections.abc import Sequence

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from llmstack.generation.decoder import CachedDecoder
from llmstack.generation.penalty import PenalisedSampler


class _Drawing(nn.Cell):
    """Draws tokens with one model and keeps what was drawn.

    Args:
        decoder: the model with its caches.
        sampler: a Cell ``(logits_BV, temperature_1, uniform_B) -> (token_B, logp_B)``.
        room: tokens R a row that are kept.
        eos_ids: every token that ends an answer; empty: none does.
    """

    def __init__(self, decoder: CachedDecoder, sampler: nn.Cell, *, room: int, eos_ids: Sequence[int]) -> None:
        super().__init__(auto_prefix=False)  # the model's parameters keep the names they have in the model
        self.prompt_len, self.room = decoder.prompt_len, room
        self.decoder = decoder
        self.sampler = sampler
        self.remembers = isinstance(sampler, PenalisedSampler)
        self.ends_1N = Tensor(np.array([tuple(eos_ids) or (-1,)], np.int32))
        drawn = (room, decoder.batch_rows)
        self.tokens_RB = Parameter(ops.zeros(drawn, ms.int32), name="drawn.tokens", requires_grad=False)
        self.logp_RB = Parameter(ops.zeros(drawn, ms.float32), name="drawn.logp", requires_grad=False)
        self.write = ops.ScatterUpdate()

    def _open(self, tokens_BP: Tensor, first_B: Tensor) -> Tensor:
        """Read the prompts; logits of the first new token."""
        if self.remembers:
            self.sampler.seen.start(tokens_BP, self.decoder.real(first_B))
        return self.decoder.prefill(tokens_BP, first_B)

    def _draw(self, logits_BV: Tensor, temperature: Tensor, uniforms_RB: Tensor, index: Tensor) -> Tensor:
        uniform_B = ops.reshape(ops.gather(uniforms_RB, index, 0), (-1,))
        token_B, logp_B = self.sampler(logits_BV, temperature, uniform_B)
        self.write(self.tokens_RB, index, ops.expand_dims(token_B, 0))
        self.write(self.logp_RB, index, ops.expand_dims(logp_B, 0))
        return token_B

    def _ends(self, token_B: Tensor) -> Tensor:
        return ops.equal(ops.expand_dims(token_B, 1), self.ends_1N).any(1)


class DecodingLoop(_Drawing):
    """Draws tokens until every row has drawn an end token or R tokens.

    A row that has ended goes on drawing: its tokens after the end mean nothing, and cost nothing while others go on.
    """

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
        logits_BV = self._open(tokens_BP, first_B)
        index = ops.zeros((1,), ms.int32)
        token_B = self._draw(logits_BV, temperature, uniforms_RB, index)
        ended_B = self._ends(token_B)
        steps = ops.ones((), ms.int32)
        while steps < self.room and not ended_B.all():
            logits_BV = self.decoder(token_B, first_B, self.prompt_len + index)
            index = index + 1
            token_B = self._draw(logits_BV, temperature, uniforms_RB, index)
            ended_B = ops.logical_or(ended_B, self._ends(token_B))
            steps = steps + 1
        return self.tokens_RB, self.logp_RB, steps


class Opening(_Drawing):
    """Reads the prompts and draws the first token of each answer; :class:`Continuation` goes on from its caches."""

    def construct(
        self, tokens_BP: Tensor, lengths_B: Tensor, temperature: Tensor, uniforms_1B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draw the first tokens.

        Args:
            tokens_BP: (B, P) int32, prompts padded on the left.
            lengths_B: (B,) int32, tokens of each prompt.
            temperature: (1,) float32, above 0.
            uniforms_1B: (1, B) float32 within (0, 1).

        Returns:
            ``(tokens_1B, logp_1B)``: (1, B) int32 and float32.
        """
        logits_BV = self._open(tokens_BP, self.prompt_len - lengths_B)
        self._draw(logits_BV, temperature, uniforms_1B, ops.zeros((1,), ms.int32))
        return self.tokens_RB, self.logp_RB


class Continuation(_Drawing):
    """Draws up to R more tokens, fewer when every row has ended before."""

    def construct(
        self,
        token_B: Tensor,
        ended_B: Tensor,
        first_B: Tensor,
        slot: Tensor,
        temperature: Tensor,
        uniforms_RB: Tensor,
        limit: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Go on from the last tokens.

        Args:
            token_B: (B,) int32, drawn last and not yet read.
            ended_B: (B,) bool, rows whose tokens do not matter any more.
            first_B: (B,) int32, slot of each row's first real token.
            slot: (1,) int32, slot of ``token_B``.
            temperature: (1,) float32, above 0.
            uniforms_RB: (R, B) float32 within (0, 1).
            limit: () int32, tokens to draw, from 1 to R.

        Returns:
            ``(tokens_RB, logp_RB, steps)`` as of :class:`DecodingLoop`.
        """
        index = ops.zeros((1,), ms.int32)
        steps = ops.zeros((), ms.int32)
        while steps < limit and not ended_B.all():
            logits_BV = self.decoder(token_B, first_B, slot + index)
            token_B = self._draw(logits_BV, temperature, uniforms_RB, index)
            ended_B = ops.logical_or(ended_B, self._ends(token_B))
            index = index + 1
            steps = steps + 1
        return self.tokens_RB, self.logp_RB, steps
