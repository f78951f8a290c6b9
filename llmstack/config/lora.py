"""Options of low-rank adapters."""

from __future__ import annotations

import math

from pydantic import Field

from llmstack.config.base import Strict
from llmstack.config.markers import Folder

ALL_LINEAR = "all-linear"


class LoraConfig(Strict):
    """Low-rank adapters in place of training the whole model."""

    rank: int = Field(gt=0)
    """Rank r of an update."""
    alpha: float = Field(gt=0)
    """An update is multiplied by alpha / rank."""
    dropout: float = Field(ge=0, lt=1)
    """Share of an adapter's inputs left out while training."""
    target_modules: tuple[str, ...] = Field(min_length=1)
    """Hugging Face names of the adapted projections, patterns of full names (`*.layers.[0-3].mlp.*`), or all-linear."""
    rslora: bool = False
    """Multiply by alpha / sqrt(rank) instead, so that the rank may grow (Kalajdzievski 2023)."""
    dora: bool = False
    """Train the length of each row of a weight apart from its direction (Liu et al. 2024)."""
    adapter: Folder | None = None
    """Folder of a PEFT adapter to start from; null starts from no change."""

    @property
    def scaling(self) -> float:
        """What an update is multiplied by."""
        return self.alpha / (math.sqrt(self.rank) if self.rslora else self.rank)
