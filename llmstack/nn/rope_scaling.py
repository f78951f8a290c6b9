"""Rotary frequencies, plain or stretched to contexts longer than a model was first trained on."""

from __future__ import annotations

import math

import numpy as np

from llmstack.config.model import RopeScaling


def rotary_frequencies(head_dim: int, theta: float, scaling: RopeScaling | None = None) -> tuple[np.ndarray, float]:
    """The angle each pair of channels turns by from one position to the next.

    Plain: ``f_i = theta^(-2i/E)`` (Su et al. 2021, equation 15).

    Args:
        head_dim: head width E, even.
        theta: base of the frequencies.
        scaling: how they are stretched; None leaves them plain.

    Returns:
        ``(frequencies, magnitude)``: (E/2,) float64 in radians, and what cosines and sines are multiplied by.
    """
    frequencies = float(theta) ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if scaling is None:
        return frequencies, 1.0
    if scaling.rope_type == "linear":
        # position interpolation: Chen et al. 2023, equation 4
        return frequencies / scaling.factor, 1.0
    if scaling.rope_type == "llama3":
        return _by_wavelength(frequencies, scaling), 1.0
    return _by_parts(frequencies, theta, scaling), _magnitude(scaling)


def _by_wavelength(frequencies: np.ndarray, scaling: RopeScaling) -> np.ndarray:
    """Llama 3.1's rule: waves that fit the old context often stay, long ones are stretched, a blend between."""
    low, high, context = scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_max_position_embeddings
    assert low is not None and high is not None and context is not None  # noqa: S101 - the config demands them
    turns = context * frequencies / (2.0 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return frequencies * (kept + (1.0 - kept) / scaling.factor)


def _by_parts(frequencies: np.ndarray, theta: float, scaling: RopeScaling) -> np.ndarray:
    """YaRN's NTK-by-parts (Peng et al. 2023, section 3.2), its ramp over channels as in its authors' code."""
    context, width = scaling.original_max_position_embeddings, 2 * len(frequencies)
    assert context is not None  # noqa: S101 - the config demands it

    def channel(turns: float) -> float:
        """The channel that turns so often within the old context."""
        return width * math.log(context / (turns * 2.0 * math.pi)) / (2.0 * math.log(theta))

    first, last = channel(scaling.beta_fast), channel(scaling.beta_slow)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0.0), min(last, width - 1.0)
    stretched = np.clip((np.arange(len(frequencies)) - first) / max(last - first, 0.001), 0.0, 1.0)
    return frequencies * (1.0 - stretched + stretched / scaling.factor)


def _magnitude(scaling: RopeScaling) -> float:
    """YaRN's temperature of the attention, moved into the rotation (Peng et al. 2023, section 3.4)."""
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    return 0.1 * math.log(scaling.factor) + 1.0
