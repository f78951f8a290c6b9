"""Gradients by central differences: the referee between an analytic gradient and its function."""

from __future__ import annotations

import numpy as np


def numerical_gradient(function, x, step=1e-5):
    """``(f(x + h) - f(x - h)) / 2h`` for each element of x; ``function`` returns a float. float64 of x's shape."""
    x = np.array(x, np.float64)
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        kept = x[index]
        x[index] = kept + step
        above = function(x)
        x[index] = kept - step
        below = function(x)
        x[index] = kept
        gradient[index] = (above - below) / (2 * step)
    return gradient
