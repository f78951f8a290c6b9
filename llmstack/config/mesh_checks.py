"""Whether a mesh divides a model and the rows of a stage; what does not fit comes with the nearest value that does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from llmstack.config.model import ModelConfig
from llmstack.config.online import RolloutConfig
from llmstack.config.parallel import ParallelConfig
from llmstack.config.ppo import PpoConfig
from llmstack.config.stages import StageConfig

Found = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Division:
    """A size that an axis has to divide.

    Attributes:
        what: the size, as a message calls it.
        size: how large it is.
        axis: the axis.
        parts: how many parts the axis makes of it.
    """

    what: str
    size: int
    axis: str
    parts: int

    @property
    def fits(self) -> bool:
        """Whether the parts are whole."""
        return self.size % self.parts == 0


def nearest_divisor(size: int, wanted: int) -> int:
    """The divisor of a size that is nearest to a wanted one; of two that are as near, the smaller.

    Args:
        size: what is divided, at least 1.
        wanted: at least 1.
    """
    return min((n for n in range(1, size + 1) if size % n == 0), key=lambda n: (abs(n - wanted), n))


def nearest_multiple(size: int, parts: int) -> int:
    """The multiple that is nearest to a size, at least one of them; of two that are as near, the larger.

    Args:
        size: at least 1.
        parts: what has to divide it.
    """
    return max(1, (2 * size + parts) // (2 * parts)) * parts


def model_problems(parallel: ParallelConfig, model: ModelConfig, where: str = "model") -> Found:
    """What of a model an axis does not divide.

    Fewer key/value heads than tensor ranks are refused: the fused projection is cut by whole heads, and a copied head
    would need its gradients summed over its copies.

    Args:
        parallel: the mesh.
        model: the sizes.
        where: dotted path of the sizes.

    Yields:
        Dotted path and message.
    """
    tensor, layers = parallel.tensor, model.num_hidden_layers
    sizes = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
    common = math.gcd(*(getattr(model, key) for key in sizes))
    for key in sizes:
        cut = Division(f"{where}.{key}", getattr(model, key), "tensor", tensor)
        if not cut.fits:
            fix = f"The nearest tensor that fits is {nearest_divisor(common, tensor)}."
            yield "parallel.tensor", f"expected a divisor of {cut.what} ({cut.size}), got {tensor}. {fix}"
            break
    if model.vocab_size is not None and model.vocab_size % tensor:
        rows = -(-model.vocab_size // tensor) * tensor
        expected = f"a multiple of parallel.tensor ({tensor})"
        yield (
            f"{where}.vocab_size",
            f"expected {expected}, got {model.vocab_size}. Write {rows}: spare rows are fine.",
        )
    pieces = parallel.pipeline * parallel.interleave
    if layers % pieces:
        axis = "pipeline" if layers % parallel.pipeline else "interleave"
        most = layers if axis == "pipeline" else layers // parallel.pipeline
        fix = f"The nearest {axis} that does is {nearest_divisor(most, getattr(parallel, axis))}."
        got = getattr(parallel, axis)
        yield f"parallel.{axis}", f"expected a divisor of the {most} layers of {where}, got {got}. {fix}"


def stage_problems(parallel: ParallelConfig, name: str, stage: StageConfig) -> Found:
    """What of a stage's rows the mesh does not divide.

    Args:
        parallel: the mesh.
        name: the stage.
        stage: its options.

    Yields:
        Dotted path and message.
    """
    path = f"stages.{name}"
    parts = parallel.data * parallel.micro_batches
    named = "parallel.data" if parallel.micro_batches == 1 else "parallel.data times parallel.micro_batches"
    if isinstance(stage, RolloutConfig):
        cuts = stage.minibatches * stage.accumulate
        if stage.loader_rows % parallel.data:
            unit, rows = parallel.data * stage.samples_per_prompt, stage.batch_rows
            expected = f"a multiple of parallel.data times samples_per_prompt ({unit})"
            yield f"{path}.batch_rows", f"expected {expected}, got {rows}. Write {nearest_multiple(rows, unit)}."
        elif stage.batch_rows // cuts % parts:
            expected = f"a multiple of minibatches times accumulate times {named} ({cuts * parts})"
            nearest = nearest_multiple(stage.batch_rows, cuts * parts)
            yield f"{path}.batch_rows", f"expected {expected}, got {stage.batch_rows}. Write {nearest}."
    elif stage.batch_rows % parts:
        nearest = nearest_multiple(stage.batch_rows, parts)
        expected = f"a multiple of {named} ({parts})"
        yield f"{path}.batch_rows", f"expected {expected}, got {stage.batch_rows}. Write {nearest}."
    yield from _text_problems(parallel, path, stage, parts)
    yield from _context_problems(parallel, path, stage)


def _text_problems(parallel: ParallelConfig, path: str, stage: StageConfig, parts: int) -> Found:
    text = stage.pretraining if isinstance(stage, PpoConfig) else None
    if text is not None and text.batch_rows // stage.accumulate % parts:
        unit = parts * stage.accumulate
        nearest = nearest_multiple(text.batch_rows, unit)
        where = f"{path}.pretraining.batch_rows"
        yield where, f"expected a multiple of {unit}, which the mesh needs, got {text.batch_rows}. Write {nearest}."


def _context_problems(parallel: ParallelConfig, path: str, stage: StageConfig) -> Found:
    unit, length = parallel.context, stage.longest_row
    if length % unit == 0:
        return
    expected = f"rows of a multiple of parallel.context ({unit}) tokens"
    if isinstance(stage, RolloutConfig):  # the longest prompt stands for all
        prompt = stage.prompt_buckets[-1]
        fitting = stage.response_len + nearest_multiple(length, unit) - length
        yield f"{path}.response_len", f"expected {expected}, got {prompt} + {stage.response_len}. Write {fitting}."
    else:
        yield f"{path}.seq_len", f"expected {expected}, got {length}. Write {nearest_multiple(length, unit)}."
