"""The reward model's loss on preference pairs."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.nn import kernels


class PairwiseLoss(nn.Cell):
    """sum_b -(1 - e) log sigmoid(d_b) - e log sigmoid(-d_b) + centering (c_b + r_b)^2,  d_b = c_b - r_b - m_b.

    Bradley-Terry (Ouyang et al. 2022, equation 1) with a required lead m (Touvron et al. 2023, Llama 2, equation 2)
    and a term that keeps scores near zero (Eisenstein et al. 2023, section 2.2). e smooths the labels (Szegedy et al.
    2016, section 7; for preferences Mitchell 2023, "A note on DPO with noisy preferences"): the loss of pairs of which
    a share e is the wrong way round. Its least value is at d = log((1 - e) / e), so that leads stay bounded.

    Args:
        centering: weight of the squared sum of a pair's scores; 0 leaves it out of the graph.
        label_smoothing: e, from 0 to below 1/2; 0 leaves it out of the graph.
    """

    def __init__(self, centering: float = 0.0, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.centering, self.label_smoothing = centering, label_smoothing
        # -log sigmoid(c - r - m) is the cross-entropy of the logits (c - m, r): finite for any score, -1/2 at a tie.
        # The framework's own Softplus gives other last bits from call to call on CPU, which resume must not.
        self.token_nll = kernels.token_nll()
        self.temperature = Tensor(np.ones(1, np.float32))

    def construct(self, chosen_B: Tensor, rejected_B: Tensor, margin_B: Tensor) -> tuple[Tensor, Tensor]:
        """Sum the loss of the pairs.

        Args:
            chosen_B: (B,) float32, scores of the better answers.
            rejected_B: (B,) float32, scores of the worse answers.
            margin_B: (B,) float32, by how much the better one should lead; 0 for a plain pair.

        Returns:
            ``(loss_sum, count)``: scalars float32; count is the number of pairs B.
        """
        logits_B2 = ops.stack((chosen_B - margin_B, rejected_B), 1)
        better_B = ops.zeros(chosen_B.shape, ms.int32)
        loss_B, _, _ = self.token_nll(logits_B2, better_B, self.temperature)
        if self.label_smoothing > 0.0:
            # -log sigmoid(-d) = -log sigmoid(d) + d
            loss_B = loss_B + self.label_smoothing * (chosen_B - rejected_B - margin_B)
        if self.centering > 0.0:
            loss_B = loss_B + self.centering * ops.square(chosen_B + rejected_B)
        return ops.reduce_sum(loss_B), ops.reduce_sum(ops.ones_like(chosen_B))
