"""Log-probabilities and entropies of a policy's tokens."""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from llmstack.nn import kernels


class TokenLogProbs(nn.Cell):
    """log softmax(z / T)[label] and the entropy of softmax(z / T), token by token.

    The temperature is the one the answers were sampled at: old, new and reference log-probabilities of a policy
    update must all be taken at it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.token_nll = kernels.token_nll()

    def construct(self, logits_NV: Tensor, labels_N: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """Score each token.

        Args:
            logits_NV: (N, V) float32.
            labels_N: (N,) int32, the token that was drawn.
            temperature: scalar or (1,) float32, above 0.

        Returns:
            ``(logp_N, entropy_N)``: (N,) float32 each, in nats.
        """
        nll_N, _, entropy_N = self.token_nll(logits_NV, labels_N, ops.reshape(temperature, (1,)))
        return -nll_N, entropy_N
