"""Who sets beta, the weight of the KL in the reward."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llmstack.errors import RunHalted

if TYPE_CHECKING:
    from llmstack.config.online import KlConfig


class FixedKl:
    """Beta as the recipe gives it, for ever."""

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def update(self, observed_kl: float, num_answers: int) -> None:
        """Change nothing: a fixed beta does not look at the KL.

        Args:
            observed_kl: mean KL(policy || reference) of an answer, in nats.
            num_answers: answers it was measured on.
        """

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps: nothing, since the recipe holds all of it."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Take back ``state()``, which is empty."""


class AdaptiveKl:
    """Proportional control of log beta towards a wanted KL (Ziegler et al. 2019, section 2.2).

    ``e = clip(KL / target - 1, -0.2, 0.2)``; ``beta <- beta (1 + e num_answers / horizon)``. The paper's gain ``K_beta
    = 0.1`` is for its batch; ``num_answers / horizon`` (as in the paper's code) does not depend on the batch size.
    """

    max_error = 0.2

    def __init__(self, beta: float, *, target: float, horizon: int) -> None:
        """Start at a beta.

        Args:
            beta: first weight.
            target: wanted KL(policy || reference) of an answer, in nats.
            horizon: number of answers over which beta may move by ``max_error`` of itself.
        """
        self.beta = beta
        self.target = target
        self.horizon = horizon

    def update(self, observed_kl: float, num_answers: int) -> None:
        """Move beta after an iteration: up when the KL was above the target, down when below.

        Args:
            observed_kl: mean KL(policy || reference) of an answer, in nats.
            num_answers: answers it was measured on.

        Raises:
            RunHalted: the KL is not a finite number; beta would stay NaN for the rest of the run.
        """
        if not math.isfinite(observed_kl):
            raise RunHalted(f"kl: expected a finite KL of the iteration's answers, got {observed_kl}. Lower the lr.")
        error = min(max(observed_kl / self.target - 1.0, -self.max_error), self.max_error)
        self.beta *= 1.0 + error * num_answers / self.horizon

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps: beta."""
        return {"beta": self.beta}

    def restore(self, state: dict[str, float]) -> None:
        """Take back what ``state()`` gave.

        Args:
            state: a dict with ``beta``.
        """
        self.beta = state["beta"]


def kl_controller(config: KlConfig) -> FixedKl | AdaptiveKl:
    """The controller a recipe asks for.

    Args:
        config: the stage's ``kl`` section; adaptive mode has its target and horizon (checked when the recipe is
            decoded).

    Returns:
        A controller at ``config.beta``.
    """
    if config.target is None or config.horizon is None:
        return FixedKl(config.beta)
    return AdaptiveKl(config.beta, target=config.target, horizon=config.horizon)
