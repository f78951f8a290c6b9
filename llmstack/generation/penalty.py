"""Sampling that holds back tokens the prompt or the answer already has."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from llmstack.generation.composed import ComposedSampler


class SeenTokens(nn.Cell):
    """How often each row has had each token, and the logits that follow from it.

    z / penalty where z > 0, z * penalty elsewhere, for tokens seen at least once (Keskar et al. 2019, section 4.1;
    the paper divides every logit, which would favour a seen token whose logit is negative).

    Args:
        penalty: above 1 holds seen tokens back, below 1 brings them forward.
        batch_rows: rows B.
        vocab_size: V.
    """

    def __init__(self, penalty: float, *, batch_rows: int, vocab_size: int) -> None:
        super().__init__()
        self.penalty = penalty
        self.count_BV = Parameter(ops.zeros((batch_rows, vocab_size), ms.float32), name="seen", requires_grad=False)
        self.empty_BV = ops.zeros((batch_rows, vocab_size), ms.float32)
        self.rows_B1 = Tensor(np.arange(batch_rows, dtype=np.int32)[:, None])
        self.ones_B = Tensor(np.ones(batch_rows, np.float32))
        self.count = ops.ScatterNdAdd()

    def start(self, tokens_BP: Tensor, real_BP: Tensor) -> None:
        """Forget everything but the prompts.

        Args:
            tokens_BP: (B, P) int32.
            real_BP: (B, P) float32, 1 on the prompt's tokens, 0 on padding.
        """
        ops.assign(self.count_BV, self.empty_BV)
        rows_BP = ops.broadcast_to(self.rows_B1, tokens_BP.shape)
        self.count(self.count_BV, ops.stack((rows_BP, tokens_BP), -1), real_BP)

    def add(self, token_B: Tensor) -> None:
        """Note what was drawn.

        Args:
            token_B: (B,) int32.
        """
        self.count(self.count_BV, ops.concat((self.rows_B1, ops.expand_dims(token_B, 1)), 1), self.ones_B)

    def construct(self, logits_BV: Tensor) -> Tensor:
        """Penalise.

        Args:
            logits_BV: (B, V) float32.

        Returns:
            (B, V) float32.
        """
        held_BV = ops.select(ops.greater(logits_BV, 0.0), logits_BV / self.penalty, logits_BV * self.penalty)
        return ops.select(ops.greater(self.count_BV, 0.0), held_BV, logits_BV)


class PenalisedSampler(ComposedSampler):
    """Draws from keep(softmax(z' / T)) with z' the penalised logits.

    The log-probability stays log softmax(z / T) of the logits themselves: the policy's own. At a temperature near 0
    that of a token which only the penalty made the best is -inf.

    Args:
        keep: a Cell ``weights_BV -> weights_BV`` that zeroes what may not be drawn; None allows every token.
        seen: the tokens so far.
    """

    def __init__(self, keep: nn.Cell | None, seen: SeenTokens) -> None:
        super().__init__(keep)
        self.seen = seen

    def construct(self, logits_BV: Tensor, temperature: Tensor, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
        """Draw, and note it.

        Args:
            logits_BV: (B, V) float32.
            temperature: (1,) float32, T > 0.
            uniform_B: (B,) float32, u within (0, 1).

        Returns:
            ``(token_B, logp_B)``: (B,) int32, and (B,) float32 in nats.
        """
        weights_BV = self.keep(self.softmax(self.seen(logits_BV) / temperature))
        token_B = self.pick(weights_BV, uniform_B)
        self.seen.add(token_B)
        return token_B, self.log_of(self.softmax(logits_BV / temperature), token_B)
