"""How a run is spread over devices: the mesh, what is sharded, what is computed twice, and in which dtypes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject

AXES = ("pipeline", "data", "context", "tensor")
"""The axes of a mesh, the outermost first."""
_ASCEND_ONLY = ("pipeline", "context", "tensor")


class ParallelConfig(Strict):
    """The device mesh and what goes with it.

    ``batch_rows`` of a stage counts the rows of all devices together: the same recipe trains the same on any mesh.
    """

    mode: Literal["single", "mesh"]
    """single: one process, one device; mesh: one process a device, laid out by the axes below."""
    device: Literal["cpu", "ascend"]
    """Where graphs run."""
    threads: int | None = Field(default=None, gt=0)
    """CPU threads; null uses every core this process may run on."""
    data: int = Field(default=1, gt=0)
    """Ranks that hold the same weights and share the rows of a batch."""
    tensor: int = Field(default=1, gt=0)
    """Ranks that share every weight matrix: heads, feed-forward and vocabulary."""
    pipeline: int = Field(default=1, gt=0)
    """Ranks that share the layers."""
    context: int = Field(default=1, gt=0)
    """Ranks that share the tokens of a row; keys and values go round in a ring."""
    expert: int = Field(default=1, gt=0)
    """Ranks that share the experts of a layer; 1, as no model here has experts."""
    sequence_parallel: bool = False
    """Norms and residual streams are shared by the tensor ranks too (Korthikanti et al. 2022, section 4.2.2)."""
    micro_batches: int = Field(default=1, gt=0)
    """Parts of a batch that follow each other through the pipeline; at least ``pipeline``."""
    interleave: int = Field(default=1, gt=0)
    """Pieces of layers that a pipeline rank holds (Narayanan et al. 2021, section 2.2); 1: one piece."""
    optimizer_sharding: Literal["none", "level1", "level2", "level3"] = "none"
    """What ranks of the data and context axes share instead of repeating it. level1: weights and optimizer state;
    level2: gradients too; level3: gathered weights are dropped after the forward pass as well."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Activations that the backward pass makes again. selective: norms and the feed-forward's gate, which cost no
    matmul; full: whole layers, of which only the input is kept."""
    compute_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Dtype of matmuls and activations; frozen weights are kept in it."""
    master_dtype: Literal["float32", "bfloat16"] = "float32"
    """Dtype of trained weights, their gradients and moments."""

    @property
    def num_devices(self) -> int:
        """Devices of the mesh."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def num_replicas(self) -> int:
        """Ranks that hold the same part of the weights, which optimizer sharding may share."""
        return self.data * self.context

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = self._axis_problems() | self._pipeline_problems()
        if self.sequence_parallel and self.tensor == 1:
            problems["sequence_parallel"] = "expected false because `tensor` is 1, got true. Raise tensor, or drop it."
        if self.optimizer_sharding != "none" and self.num_replicas == 1:
            problems["optimizer_sharding"] = (
                f"expected none because `data` and `context` are 1 and nobody could share, got "
                f"{self.optimizer_sharding}. Write none."
            )
        if self.master_dtype == "bfloat16" and self.compute_dtype != "bfloat16":
            problems["master_dtype"] = (
                f"expected float32 because `compute_dtype` is {self.compute_dtype}, got bfloat16. Write float32."
            )
        if self.device == "cpu" and self.compute_dtype != "float32":
            problems["compute_dtype"] = (
                f"expected float32 because `device` is cpu, which has no matmul of another dtype that trains, got "
                f"{self.compute_dtype}. Write float32, or `device: ascend`."
            )
        reject(self, problems)
        return self

    def _axis_problems(self) -> dict[str, str]:
        problems = {}
        if self.expert > 1:
            problems["expert"] = f"expected 1 because no model here has experts, got {self.expert}. Write 1."
        for axis in AXES:
            size = getattr(self, axis)
            if size == 1:
                continue
            if self.mode == "single":
                problems[axis] = f"expected 1 because `mode` is single, got {size}. Write `mode: mesh`, or 1."
            elif self.device == "cpu" and axis in _ASCEND_ONLY:
                problems[axis] = (
                    f"expected 1 because `device` is cpu, on which MindSpore shares data alone, got {size}. "
                    "Use `data`, or `device: ascend`."
                )
        return problems

    def _pipeline_problems(self) -> dict[str, str]:
        problems = {}
        if self.pipeline == 1:
            for key in ("micro_batches", "interleave"):
                if getattr(self, key) > 1:
                    got = getattr(self, key)
                    problems[key] = f"expected 1 because `pipeline` is 1, got {got}. Write 1 (accumulate is a stage's)."
        elif self.micro_batches < self.pipeline:
            problems["micro_batches"] = (
                f"expected at least `pipeline` ({self.pipeline}), so that every rank has work, got "
                f"{self.micro_batches}. Write {self.pipeline}."
            )
        elif self.interleave > 1 and self.micro_batches % self.pipeline:
            nearest = -(-self.micro_batches // self.pipeline) * self.pipeline
            problems["micro_batches"] = (
                f"expected a multiple of `pipeline` ({self.pipeline}) because `interleave` is {self.interleave}, got "
                f"{self.micro_batches}. Write {nearest}."
            )
        return problems
