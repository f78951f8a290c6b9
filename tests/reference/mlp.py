"""SwiGLU feed-forward (Shazeer 2020, "GLU Variants Improve Transformer", equation 6)."""

from __future__ import annotations

import numpy as np


def silu(x):
    """``x * sigmoid(x)`` (Swish with beta 1)."""
    x = np.asarray(x, np.float64)
    return x / (1.0 + np.exp(-x))


def swiglu(x, gate_FD, up_FD, down_DF):
    """``down(silu(gate x) * (up x))``.

    Args:
        x: (..., D).
        gate_FD: (F, D) weight of the gate.
        up_FD: (F, D) weight of the gated branch.
        down_DF: (D, F) output weight.

    Returns:
        (..., D) float64.
    """
    x, gate, up, down = (np.asarray(a, np.float64) for a in (x, gate_FD, up_FD, down_DF))
    return (silu(x @ gate.T) * (x @ up.T)) @ down.T
