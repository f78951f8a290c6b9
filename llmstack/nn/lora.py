"""A linear layer with trained low-rank updates of its frozen weight."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from llmstack.config.lora import LoraConfig
from llmstack.nn import kernels
from llmstack.nn.dropout import SeededDropout
from llmstack.nn.init import blank_parameter
from llmstack.nn.linear import Linear


@dataclass(frozen=True)
class Projection:
    """One of the projections that a fused linear layer is made of.

    Attributes:
        name: its full Hugging Face name, e.g. ``model.layers.0.self_attn.q_proj``.
        rows: how many rows of the weight are its.
        adapted: whether it gets an update.
    """

    name: str
    rows: int
    adapted: bool


class LowRankUpdate(nn.Cell):
    """x A^T B^T times a factor (Hu et al. 2021, equation 3); B starts at 0, so that nothing changes at first.

    Args:
        in_width: I.
        out_width: O.
        config: rank r, scaling and whether rows have a length of their own.
        seed: of A.
    """

    def __init__(self, in_width: int, out_width: int, config: LoraConfig, *, seed: Sequence[int]) -> None:
        super().__init__()
        # Kaiming's uniform with a = sqrt(5), as in the authors' code: bounded by 1 / sqrt(I)
        bound = 1.0 / np.sqrt(in_width)
        drawn = np.random.default_rng(seed).uniform(-bound, bound, (config.rank, in_width))
        self.a = Parameter(Tensor(drawn.astype(np.float32)), name="a")
        self.b = blank_parameter("b", (out_width, config.rank))
        self.scaling = config.scaling
        self.has_magnitude = config.dora
        if config.dora:
            self.magnitude = blank_parameter("magnitude", (out_width,), fill="ones")
        self.down, self.up, self.product = kernels.linear(), kernels.linear(), kernels.linear()

    def construct(self, rows_NI: Tensor) -> Tensor:
        """The update's part of the output.

        Args:
            rows_NI: (N, I) float32.

        Returns:
            (N, O) float32.
        """
        return self.up(self.down(rows_NI, self.a), self.b) * self.scaling

    def gain(self, weight_OI: Tensor) -> Tensor:
        """What each output is multiplied by: m / ||W + B A|| (Liu et al. 2024, equation 5).

        The norm counts as a constant (section 4.3 there): no gradient flows through it.

        Args:
            weight_OI: (O, I) float32, the frozen weight.

        Returns:
            (O,) float32.
        """
        adapted_OI = weight_OI + self.product(self.b, ops.transpose(self.a, (1, 0))) * self.scaling
        norm_O = ops.sqrt(ops.reduce_sum(adapted_OI * adapted_OI, -1))
        return self.magnitude / ops.stop_gradient(norm_O)


class LoraLinear(nn.Cell):
    """A frozen :class:`~llmstack.nn.linear.Linear` whose projections have low-rank updates.

    Args:
        base: the layer; its Parameters are taken over.
        projections: what its rows are, in order.
        config: the adapters' options.
        seed: of the first values of the updates.
    """

    def __init__(self, base: Linear, projections: Sequence[Projection], config: LoraConfig, *, seed: int) -> None:
        super().__init__()
        self.weight = base.weight
        self.has_bias = base.has_bias
        if base.has_bias:
            self.bias = base.bias
        self.project = base.project
        self.projections = tuple(projections)
        self.rows = [projection.rows for projection in projections]
        self.adapted = [projection.adapted for projection in projections]
        self.scaling, self.dora = config.scaling, config.dora
        width = base.weight.shape[1]
        self.updates = nn.CellList(
            [
                LowRankUpdate(width, p.rows, config, seed=(seed, zlib.crc32(p.name.encode())))
                for p in projections
                if p.adapted
            ]
        )
        self.has_dropout = config.dropout > 0
        self.dropouts = nn.CellList(
            [SeededDropout(config.dropout) if self.has_dropout else nn.Identity() for _ in self.updates]
        )
        self.direct = kernels.linear()
        self.join = ops.Concat(1)

    def construct(self, rows_NI: Tensor) -> Tensor:
        """Project each row with the updated weight.

        Args:
            rows_NI: (N, I) float32.

        Returns:
            (N, O) float32.
        """
        out_NO = self.project(rows_NI, self.weight)
        parts = ops.split(out_NO, self.rows, 1)
        weights = ops.split(self.weight, self.rows, 0)
        joined: tuple[Tensor, ...] = ()
        number = 0
        for i in range(len(self.rows)):
            part = parts[i]
            if self.adapted[i]:
                part = self._updated(number, rows_NI, part, weights[i])
                number = number + 1
            joined = joined + (part,)
        out_NO = self.join(joined) if len(joined) > 1 else joined[0]
        return out_NO + self.bias if self.has_bias else out_NO

    def _updated(self, number: int, rows_NI: Tensor, part_NO: Tensor, weight_OI: Tensor) -> Tensor:
        update = self.updates[number]
        dropped_NI = self.dropouts[number](rows_NI)
        if not self.dora:
            return part_NO + update(dropped_NI)
        gain_O = update.gain(weight_OI)
        # the length acts on what the adapter sees, dropped or not
        seen_NO = self.direct(dropped_NI, weight_OI) if self.has_dropout else part_NO
        return part_NO + (gain_O - 1.0) * seen_NO + gain_O * update(dropped_NI)
