"""Options of GRPO and its relatives."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject
from llmstack.config.named import NameIn, Registered
from llmstack.config.online import OnlineConfig
from llmstack.registry import ADVANTAGES, AGGREGATIONS


class AdvantageConfig(Strict):
    """Base of every advantage's options; subclasses add theirs."""

    kl_in_reward: ClassVar[bool] = True
    """Whether the function takes the KL costs (``kl.beta``) from the scores."""

    @property
    def needs_group(self) -> bool:
        """Whether it compares the answers to one prompt, of which there must then be two."""
        return True

    kind: Annotated[str, NameIn(ADVANTAGES)]
    """Name in the advantage registry."""


class GrpoAdvantageConfig(AdvantageConfig):
    """Distance from the group's mean over its standard deviation."""

    kl_in_reward: ClassVar[bool] = False

    ddof: Literal[0, 1] = 1
    """The deviation divides by n - ddof."""
    epsilon: float = Field(default=1e-6, gt=0)
    """Added to the deviation."""


class ReinforcePpConfig(AdvantageConfig):
    """Return from each token on, whitened over the iteration."""

    baseline: Literal["none", "group"] = "none"
    """group: the mean score of the group is taken off first."""

    @property
    def needs_group(self) -> bool:
        """Only for the baseline."""
        return self.baseline == "group"


AnyAdvantage: TypeAlias = Annotated[AdvantageConfig, Registered(ADVANTAGES, "kind")]
"""Options of any registered advantage."""


class DynamicSamplingConfig(Strict):
    """Groups whose answers all score the same teach nothing: ask other prompts in their place."""

    max_refills: int = Field(ge=0)
    """Further batches of prompts an iteration may answer; what is still missing then stays empty."""


class OverlongConfig(Strict):
    """Soft punishment of answers near the length limit, added to the score."""

    buffer: int = Field(gt=0)
    """Tokens before ``response_len`` in which the punishment grows from 0 to ``penalty``."""
    penalty: float = Field(default=1.0, gt=0)
    """What an answer of ``response_len`` tokens loses."""


class GrpoConfig(OnlineConfig):
    """Policy gradient from a reward without a critic: GRPO, DAPO, Dr. GRPO, RLOO, REINFORCE++."""

    advantage: AnyAdvantage
    """What an answer is measured against."""
    aggregation: Annotated[str, NameIn(AGGREGATIONS)]
    """How losses of tokens make the loss of a minibatch."""
    sequence_ratio: bool = False
    """One ratio an answer (GSPO: the geometric mean of its tokens' ratios) instead of one a token."""
    truncated: Literal["keep", "mask", "drop"] = "keep"
    """An answer cut off by ``response_len`` learns as any other (keep), has no loss but is in the statistics of its
    group (mask), or is out of both (drop)."""
    overlong: OverlongConfig | None = None
    """Soft punishment near the length limit; null is off."""
    dynamic_sampling: DynamicSamplingConfig | None = None
    """Replace groups without spread by those of further prompts; null is off."""

    @property
    def steps_are_alike(self) -> bool:
        """Not when what the answers score decides how many prompts are asked."""
        return self.dynamic_sampling is None

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        problems, kind = {}, self.advantage.kind
        compares = "dynamic_sampling" if self.dynamic_sampling is not None else f"the advantage {kind}"
        if self.samples_per_prompt < 2 and (self.advantage.needs_group or self.dynamic_sampling is not None):
            problems["samples_per_prompt"] = (
                f"expected at least 2 because {compares} compares the answers to one prompt, "
                f"got {self.samples_per_prompt}. Raise it."
            )
        if self.overlong is not None and self.overlong.buffer > self.response_len:
            problems["overlong"] = (
                f"expected a buffer of at most response_len ({self.response_len}), got {self.overlong.buffer}. "
                "Lower it."
            )
        if not self.advantage.kl_in_reward and (self.kl.beta > 0 or self.kl.mode == "adaptive"):
            found = "mode: adaptive" if self.kl.mode == "adaptive" else f"beta: {self.kl.beta:g}"
            problems["kl"] = (
                f"expected mode fixed and beta 0 because the advantage {kind} divides by the spread of the scores "
                f"alone, got {found}. Use kl.in_loss, or another advantage."
            )
        reject(self, problems)
        return self
