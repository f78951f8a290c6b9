"""AdamW (Loshchilov & Hutter 2019, algorithm 2) and clipping by the global norm (Pascanu et al. 2013, algorithm 1).

The decay is multiplied by the learning rate and skips parameters of one dimension.
"""

from __future__ import annotations

import numpy as np


def global_norm(grads):
    """``sqrt(sum of all squares)`` over every gradient."""
    return float(np.sqrt(sum((np.asarray(g, np.float64) ** 2).sum() for g in grads)))


def clip(grads, max_norm):
    """Gradients times ``min(1, max_norm / norm)``; returns (clipped, norm before)."""
    norm = global_norm(grads)
    factor = min(1.0, max_norm / norm) if norm > 0 else 1.0
    return [np.asarray(g, np.float64) * factor for g in grads], norm


class AdamW:
    """The optimizer's state and step, one parameter list in float64."""

    def __init__(self, params, *, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        self.params = [np.array(p, np.float64) for p in params]
        self.first = [np.zeros_like(p) for p in self.params]
        self.second = [np.zeros_like(p) for p in self.params]
        self.betas, self.eps, self.weight_decay, self.step_count = betas, eps, weight_decay, 0

    def step(self, lr, grads):
        """``theta -= lr (m_hat / (sqrt(v_hat) + eps) + weight_decay theta [ndim >= 2])``; returns the parameters."""
        self.step_count += 1
        beta1, beta2 = self.betas
        for i, grad in enumerate(np.asarray(g, np.float64) for g in grads):
            self.first[i] = beta1 * self.first[i] + (1 - beta1) * grad
            self.second[i] = beta2 * self.second[i] + (1 - beta2) * grad**2
            first_hat = self.first[i] / (1 - beta1**self.step_count)
            second_hat = self.second[i] / (1 - beta2**self.step_count)
            decay = self.weight_decay * self.params[i] if self.params[i].ndim >= 2 else 0.0
            self.params[i] = self.params[i] - lr * (first_hat / (np.sqrt(second_hat) + self.eps) + decay)
        return self.params
