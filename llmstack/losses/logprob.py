"""Log-probabilities and entropies of a policy's tokens."""

from __future__ import annotations

from mindspore import Tensor, nn, ops


class TokenLogProbs(nn.Cell):
    """log softmax(z / T)[label] and the entropy of softmax(z / T), token by token.

    The temperature is the one the answers were sampled at: old, new and reference log-probabilities of a policy
    update must all be taken at it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_softmax = ops.LogSoftmax(-1)
        self.pick = ops.GatherD()
        self.sum = ops.ReduceSum()

    def construct(self, logits_NV: Tensor, labels_N: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """Score each token.

        Args:
            logits_NV: (N, V) float32.
            labels_N: (N,) int32, the token that was drawn.
            temperature: scalar float32, above 0.

        Returns:
            ``(logp_N, entropy_N)``: (N,) float32 each, in nats.
        """
        logp_NV = self.log_softmax(logits_NV / temperature)
        logp_N = ops.reshape(self.pick(logp_NV, 1, ops.expand_dims(labels_N, 1)), (-1,))
        return logp_N, -self.sum(ops.exp(logp_NV) * logp_NV, -1)
