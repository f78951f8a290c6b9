"""Model FLOPs utilisation of a running stage, by the operations that the plan counts."""

from __future__ import annotations

from llmstack.config.recipe import RecipeConfig
from llmstack.parallel.plan.flops import mfu
from llmstack.parallel.plan.models import Models
from llmstack.parallel.plan.work import StageWork, work_of


class Utilisation:
    """Turns tokens a second into shares of the devices' peak.

    A token costs what the plan says of a step over the step's tokens, so that pads are no useful work and neither is
    what is computed twice.

    Args:
        work: one step of the stage.
        num_devices: devices of the run.
        peak_flops: FLOP/s of one at best.
    """

    def __init__(self, work: StageWork, *, num_devices: int, peak_flops: float) -> None:
        self._flops, self._tokens = work.flops, work.tokens
        self._num_devices, self._peak_flops = num_devices, peak_flops

    def __call__(self, tokens_per_second: float) -> dict[str, float]:
        """The metrics ``mfu`` and ``mfu_without_attention``.

        Args:
            tokens_per_second: real tokens of all devices together.
        """
        steps = tokens_per_second / self._tokens
        counted = {"mfu": self._flops.total, "mfu_without_attention": self._flops.matmul}
        return {name: mfu(steps * flops, self._num_devices, self._peak_flops) for name, flops in counted.items()}


def utilisation_of(config: RecipeConfig, name: str) -> Utilisation | None:
    """The meter of a stage; None where nobody knows what the device can do.

    Args:
        config: the recipe.
        name: the stage.
    """
    parallel, hardware = config.parallel, config.hardware
    if hardware is None or parallel.device == "cpu":
        return None
    work = work_of(name, config.stages[name], Models(config).of_stage(name))
    peak = hardware.peak_flops(parallel.compute_dtype)
    return Utilisation(work, num_devices=parallel.num_devices, peak_flops=peak)
