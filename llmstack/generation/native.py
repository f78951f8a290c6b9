"""The operations of decoding as compiled CPU kernels, with the interfaces of :mod:`llmstack.generation.composed`."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from llmstack.generation.composed import CacheSizes, cache_parameters
from llmstack.nn.native.custom import kernel, writing_kernel

_LANES = 16
"""Floats of the longest vector the kernels may work with; cached rows are padded with zeros to whole vectors."""


class NativeView(nn.Cell):
    """Which slots a new token sees, as the kernel takes it: the first of each row.

    Args:
        window: tokens a query sees, itself included; None: all before it.
    """

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.window = window

    def construct(self, first_B: Tensor, slot: Tensor) -> Tensor:
        """Find it, once a step.

        Args:
            first_B: (B,) int32, slot of each row's first real token.
            slot: (1,) int32, slot of the new token.

        Returns:
            (B,) int32: ``first_B``, or where the window begins.
        """
        return first_B if self.window is None else ops.maximum(first_B, slot - self.window + 1)


class NativeCache(nn.Cell):
    """One layer's keys and values, and attention of one new token a row over the slots in use alone.

    softmax(q K^T / sqrt(E)) V (Vaswani et al. 2017, equation 1) of rotated queries and keys.

    Args:
        sizes: of the cache and of the heads.
    """

    def __init__(self, sizes: CacheSizes) -> None:
        super().__init__()
        padded = -(-sizes.head_dim // _LANES) * _LANES
        shape = (sizes.batch_rows, sizes.num_kv_heads, sizes.context_len, padded)
        self.keys, self.values = cache_parameters(shape)
        self.heads = Tensor(np.array([sizes.num_heads, sizes.num_kv_heads], np.int32))
        width = sizes.num_heads * sizes.head_dim
        self.fill_kernel = writing_kernel("fill_cache", lambda *_: (1,), lambda qkv, *_: qkv, num_read=4, num_written=2)
        self.kernel = writing_kernel(
            "cached_attention", lambda qkv, *_: (qkv[0], width), lambda qkv, *_: qkv, num_read=6, num_written=2
        )

    def fill(self, qkv: Tensor, cos: Tensor, sin: Tensor) -> None:
        """Start over with the prompt's keys and values in slots 0 .. P - 1.

        Args:
            qkv: (B*P, (H+2K)*E) float32, queries then keys then values.
            cos: (B*P, E/2) float32, cosines of each token's angles.
            sin: (B*P, E/2) float32, sines.
        """
        self.fill_kernel(qkv, cos, sin, self.heads, self.keys, self.values)

    def construct(self, qkv: Tensor, cos: Tensor, sin: Tensor, slot: Tensor, view: Tensor) -> Tensor:
        """Write one token a row into its slot and attend to what it sees.

        Args:
            qkv: (B, (H+2K)*E) float32, queries then keys then values.
            cos: (B, E/2) float32, cosines of each token's angles.
            sin: (B, E/2) float32, sines.
            slot: (1,) int32.
            view: (B,) int32 from :class:`NativeView`.

        Returns:
            (B, H*E) float32.
        """
        return self.kernel(qkv, cos, sin, view, slot, self.heads, self.keys, self.values)


class NativeSampler(nn.Cell):
    """What :class:`~llmstack.generation.composed.ComposedSampler` draws when every token may be drawn, in one pass.

    The running sum is kept in double precision, so that rare tokens of a large vocabulary keep their chance.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernel = kernel(
            "sample_token",
            lambda logits, temperature, uniform: (uniform, uniform),
            lambda logits, temperature, uniform: (ms.int32, uniform),
        )

    def construct(self, logits_BV: Tensor, temperature: Tensor, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
        """Draw.

        Args:
            logits_BV: (B, V) float32.
            temperature: (1,) float32, T > 0.
            uniform_B: (B,) float32, u within (0, 1).

        Returns:
            ``(token_B, logp_B)``: (B,) int32, and (B,) float32 in nats.
        """
        return self.kernel(logits_BV, temperature, uniform_B)
