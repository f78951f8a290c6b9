"""Next-token cross-entropy."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.nn import kernels


class MaskedCrossEntropy(nn.Cell):
    """sum_i mask_i (log Z_i - z_i[label_i] + z_loss log^2 Z_i), Z_i = sum_v exp(z_i[v]).

    The z-loss term keeps log Z near zero (Chowdhery et al. 2022, section 5, "Training setup").

    Args:
        z_loss: weight of log^2 Z; 0 leaves the term out of the graph.
    """

    def __init__(self, z_loss: float = 0.0) -> None:
        super().__init__()
        self.z_loss = z_loss
        self.token_nll = kernels.token_nll()
        self.temperature = Tensor(np.ones(1, np.float32))

    def construct(self, logits_NV: Tensor, labels_N: Tensor, mask_N: Tensor) -> tuple[Tensor, Tensor]:
        """Sum the loss of the trained tokens.

        Args:
            logits_NV: (N, V) float32.
            labels_N: (N,) int32, the token to predict; any valid id where the mask is 0.
            mask_N: (N,) float32, 1 where the label is trained.

        Returns:
            ``(loss_sum, count)``: scalars float32; count is the sum of the mask.
        """
        loss_N, log_z_N, _ = self.token_nll(logits_NV, labels_N, self.temperature)
        if self.z_loss > 0.0:
            loss_N = loss_N + self.z_loss * ops.square(log_z_N)
        return ops.reduce_sum(loss_N * mask_N), ops.reduce_sum(mask_N)
