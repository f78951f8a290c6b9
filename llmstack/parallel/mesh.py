"""Ranks on a mesh, in MindSpore's order: pipeline stages are the outermost axis, tensor ranks stand side by side.

MindSpore gives each pipeline stage a run of consecutive ranks, and within it numbers the devices of a layout's matrix
row by row, so that the last axis moves fastest. Tensor ranks, which talk most, then share a host.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

from typing_extensions import Self

from llmstack.config.parallel import AXES, ParallelConfig


@dataclass(frozen=True)
class Mesh:
    """The devices of a run.

    Attributes:
        pipeline: ranks that share the layers.
        data: ranks that share the rows.
        context: ranks that share the tokens of a row.
        tensor: ranks that share the weight matrices.
    """

    pipeline: int = 1
    data: int = 1
    context: int = 1
    tensor: int = 1

    @classmethod
    def of(cls, parallel: ParallelConfig) -> Self:
        """The mesh of a recipe.

        Args:
            parallel: its options.
        """
        return cls(**{axis: getattr(parallel, axis) for axis in AXES})

    @property
    def sizes(self) -> tuple[int, ...]:
        """Length of each axis, in the order of ``AXES``."""
        return tuple(getattr(self, axis) for axis in AXES)

    @property
    def num_devices(self) -> int:
        """All ranks."""
        return math.prod(self.sizes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank is.

        Args:
            rank: from 0 to ``num_devices`` - 1.

        Raises:
            ValueError: there is no such rank.
        """
        if not 0 <= rank < self.num_devices:
            raise ValueError(f"rank: expected 0 to {self.num_devices - 1}, got {rank}.")
        found = {}
        for axis, size in zip(reversed(AXES), reversed(self.sizes), strict=True):
            rank, found[axis] = divmod(rank, size)
        return {axis: found[axis] for axis in AXES}

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """Who is at a place.

        Args:
            coordinates: a place on every axis.

        Raises:
            ValueError: a place is beyond its axis.
        """
        number = 0
        for axis, size in zip(AXES, self.sizes, strict=True):
            if not 0 <= coordinates[axis] < size:
                raise ValueError(f"{axis}: expected 0 to {size - 1}, got {coordinates[axis]}.")
            number = number * size + coordinates[axis]
        return number

    def groups(self, *axes: str) -> list[tuple[int, ...]]:
        """The sets of ranks that differ in their places on some axes alone: who takes part in one collective.

        Args:
            axes: of ``AXES``, e.g. ``("data", "context")`` for those that hold the same weights.

        Returns:
            Every rank once; groups and their ranks in rising order.
        """
        others = [axis for axis in AXES if axis not in axes]
        inside = [axis for axis in AXES if axis in axes]
        found = []
        for fixed in product(*(range(getattr(self, axis)) for axis in others)):
            place = dict(zip(others, fixed, strict=True))
            moves = product(*(range(getattr(self, axis)) for axis in inside))
            found.append(tuple(self.rank({**place, **dict(zip(inside, move, strict=True))}) for move in moves))
        return found

    @cache  # noqa: B019 - a mesh is a value, and there are few
    def crosses(self, host_devices: int, *axes: str) -> bool:
        """Whether a group of some axes reaches over the borders of hosts.

        Args:
            host_devices: ranks of a host, which are consecutive.
            axes: of ``AXES``.
        """
        return any(len({rank // host_devices for rank in group}) > 1 for group in self.groups(*axes))
