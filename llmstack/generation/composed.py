"""The operations of decoding from plain operators: correct on every device, the fast path of none."""

from __future__ import annotations

from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from llmstack.nn.composed import HIDDEN_SCORE, RotatedHeads


@dataclass(frozen=True)
class CacheSizes:
    """Sizes of one layer's cache.

    Attributes:
        batch_rows: rows B.
        context_len: slots T a row, prompt and answer together.
        num_heads: query heads H.
        num_kv_heads: key/value heads K.
        head_dim: head width E.
    """

    batch_rows: int
    context_len: int
    num_heads: int
    num_kv_heads: int
    head_dim: int


def cache_parameters(shape: tuple[int, ...]) -> tuple[Parameter, Parameter]:
    """Zeroed keys and values of one layer.

    Args:
        shape: of each.
    """
    keys, values = (Parameter(ops.zeros(shape, ms.float32), name=name, requires_grad=False) for name in ("k", "v"))
    return keys, values


class ComposedView(nn.Cell):
    """Which slots a new token sees, as an additive mask.

    Args:
        context_len: slots T of the cache.
        window: tokens a query sees, itself included; None: all before it.
    """

    def __init__(self, context_len: int, window: int | None = None) -> None:
        super().__init__()
        self.window = window or context_len
        self.slots = Tensor(np.arange(context_len, dtype=np.int32)[None, None, None])

    def construct(self, first_B: Tensor, slot: Tensor) -> Tensor:
        """Build the mask, once a step.

        Args:
            first_B: (B,) int32, slot of each row's first real token.
            slot: (1,) int32, slot of the new token.

        Returns:
            (B, 1, 1, T) float32: 0 on the slots first .. slot that are within the window, a large negative number
            elsewhere.
        """
        first_B111 = ops.reshape(ops.maximum(first_B, slot - self.window + 1), (-1, 1, 1, 1))
        seen = ops.logical_and(ops.greater_equal(self.slots, first_B111), ops.less_equal(self.slots, slot))
        return (1.0 - ops.cast(seen, ms.float32)) * HIDDEN_SCORE


class ComposedCache(nn.Cell):
    """One layer's keys and values, and attention of one new token a row over them.

    softmax(q K^T / sqrt(E)) V over the slots seen (Vaswani et al. 2017, equation 1), with rotated queries and keys.

    Args:
        sizes: of the cache and of the heads.
    """

    def __init__(self, sizes: CacheSizes) -> None:
        super().__init__()
        rows, self.head_dim, tokens = sizes.batch_rows * sizes.num_kv_heads, sizes.head_dim, sizes.context_len
        self.batch_rows, self.cache_rows, self.context_len = sizes.batch_rows, rows, tokens
        self.group = sizes.num_heads // sizes.num_kv_heads
        self.scale = sizes.head_dim**-0.5
        self.keys, self.values = cache_parameters((rows, tokens, sizes.head_dim))
        self.heads = RotatedHeads(sizes.num_heads, sizes.num_kv_heads, sizes.head_dim)
        # written slots hold zeros before, so adding writes: the one operator that touches a single slot of every row
        self.write = ops.IndexAdd(axis=1)
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.softmax = ops.Softmax(-1)
        self.weighted_sum = ops.BatchMatMul()

    def fill(self, qkv: Tensor, cos: Tensor, sin: Tensor) -> None:
        """Start over with the prompt's keys and values in slots 0 .. P - 1 and zeros after them.

        Args:
            qkv: (B*P, (H+2K)*E) float32, queries then keys then values.
            cos: (B*P, E/2) float32, cosines of each token's angles.
            sin: (B*P, E/2) float32, sines.
        """
        _, key_BKPE, value_BKPE = self.heads(qkv, cos, sin, self.batch_rows)
        prompt_len = key_BKPE.shape[2]
        empty = ops.zeros((self.cache_rows, self.context_len - prompt_len, self.head_dim), ms.float32)
        prompt = (self.cache_rows, prompt_len, self.head_dim)
        ops.assign(self.keys, ops.cat((ops.reshape(key_BKPE, prompt), empty), 1))
        ops.assign(self.values, ops.cat((ops.reshape(value_BKPE, prompt), empty), 1))

    def construct(self, qkv: Tensor, cos: Tensor, sin: Tensor, slot: Tensor, view: Tensor) -> Tensor:
        """Write one token a row into its slot and attend to what it sees.

        Args:
            qkv: (B, (H+2K)*E) float32, queries then keys then values.
            cos: (B, E/2) float32, cosines of each token's angles.
            sin: (B, E/2) float32, sines.
            slot: (1,) int32, not written since the last :meth:`fill`.
            view: (B, 1, 1, T) float32 from :class:`ComposedView`.

        Returns:
            (B, H*E) float32.
        """
        query_BH1E, key_BK1E, value_BK1E = self.heads(qkv, cos, sin, self.batch_rows)
        one_slot = (self.cache_rows, 1, self.head_dim)
        keys = self.write(self.keys, slot, ops.reshape(key_BK1E, one_slot))
        values = self.write(self.values, slot, ops.reshape(value_BK1E, one_slot))
        stacked = (self.cache_rows, self.group, -1)
        scores = self.scores(ops.reshape(query_BH1E * self.scale, stacked), keys)
        weights = self.softmax(ops.reshape(scores, (self.batch_rows, -1, 1, self.context_len)) + view)
        return ops.reshape(self.weighted_sum(ops.reshape(weights, stacked), values), (self.batch_rows, -1))


class ComposedSampler(nn.Cell):
    """One token from each row of logits by inversion of the distribution function (Devroye 1986, section III.2.1).

    With w = keep(softmax(z / T)) and c its running sum, the token is the number of c_i <= u c_V, which is the first
    whose running sum exceeds u c_V. A token of weight 0 adds nothing to c and is never that one. Its log-probability
    is log softmax(z / T) over all tokens, kept or not.

    Args:
        keep: a Cell ``weights_BV -> weights_BV`` that zeroes what may not be drawn; None allows every token.
    """

    def __init__(self, keep: nn.Cell | None) -> None:
        super().__init__()
        self.keep = nn.Identity() if keep is None else keep
        self.softmax = ops.Softmax(-1)
        self.cumulate = ops.CumSum()
        self.count = ops.ReduceSum()

    def construct(self, logits_BV: Tensor, temperature: Tensor, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
        """Draw.

        Args:
            logits_BV: (B, V) float32.
            temperature: (1,) float32, T > 0.
            uniform_B: (B,) float32, u within (0, 1).

        Returns:
            ``(token_B, logp_B)``: (B,) int32, and (B,) float32 in nats.
        """
        probs_BV = self.softmax(logits_BV / temperature)
        token_B = self.pick(self.keep(probs_BV), uniform_B)
        return token_B, self.log_of(probs_BV, token_B)

    def pick(self, weights_BV: Tensor, uniform_B: Tensor) -> Tensor:
        """Invert the distribution function.

        Args:
            weights_BV: (B, V) float32, probabilities up to a factor.
            uniform_B: (B,) float32, u within (0, 1).

        Returns:
            (B,) int32.
        """
        last = weights_BV.shape[1] - 1
        running_BV = self.cumulate(weights_BV, 1)
        total_B1 = ops.gather(running_BV, Tensor([last], ms.int32), 1)
        passed_BV = ops.less_equal(running_BV, ops.expand_dims(uniform_B, 1) * total_B1)
        passed_B = ops.cast(self.count(ops.cast(passed_BV, ms.float32), 1), ms.int32)
        return ops.minimum(passed_B, last)

    def log_of(self, probs_BV: Tensor, token_B: Tensor) -> Tensor:
        """Logarithm of one probability a row.

        Args:
            probs_BV: (B, V) float32.
            token_B: (B,) int32.

        Returns:
            (B,) float32.
        """
        return ops.log(ops.reshape(ops.gather_elements(probs_BV, 1, ops.expand_dims(token_B, 1)), (-1,)))
