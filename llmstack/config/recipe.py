"""A whole recipe."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from llmstack.config.base import Strict
from llmstack.config.data import TokenizerConfig
from llmstack.config.hardware import HardwareConfig
from llmstack.config.model import ModelConfig, ModelFolderConfig
from llmstack.config.named import IfKey, Registered
from llmstack.config.optim import OptimConfig
from llmstack.config.parallel import ParallelConfig
from llmstack.config.stages import StageConfig
from llmstack.registry import STAGES

AnyStage: TypeAlias = Annotated[StageConfig, Registered(STAGES, "kind")]
"""Options of any registered stage."""


StageName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""Names a folder of the run and a part of a dotted path."""


class RecipeConfig(Strict):
    """One complete run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    """Names the run folder."""
    seed: int = Field(ge=0, lt=2**32)
    """Every random number of the run comes from it."""
    run_dir: str
    """Where the run's files go; a relative path counts from the working directory."""
    plugins: tuple[str, ...] = ()
    """Python modules that register own stages, models, rewards, sources, optimizers or schedules."""
    model: Annotated[ModelConfig, IfKey("from", ModelFolderConfig)]
    """Architecture of every model of the chain, or ``from``: the folder of a trained model."""
    tokenizer: TokenizerConfig
    """Tokenizer of every model of the chain."""
    optim: OptimConfig
    """Optimizer defaults; a stage's own ``optim`` keys go on top."""
    parallel: ParallelConfig
    """Device and processes."""
    hardware: HardwareConfig | None = None
    """What the devices can do: for `llmstack plan`, and on Ascend for the metric `mfu`. null: not known."""
    stages: dict[StageName, AnyStage] = Field(min_length=1)
    """Ordered: a stage may start from those above it."""
