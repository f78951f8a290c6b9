"""Which tokens may be drawn, as options."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmstack.errors import UserError


@dataclass(frozen=True)
class SamplingRules:
    """What is done to a distribution before a token is drawn, in this order; the defaults leave it as it is.

    Attributes:
        repetition_penalty: logits of tokens that the prompt or the answer holds are divided by it where positive and
            multiplied where negative (Keskar et al. 2019, section 4.1, with the sign rule that transformers has);
            1 leaves them.
        top_k: draw among the best ``top_k`` tokens; 0 draws among all.
        top_p: of those, among the fewest best whose probability reaches ``top_p``; 1 draws among all.
        min_p: of those, among the ones whose probability is at least ``min_p`` times that of the best; 0 draws among
            all.

    Raises:
        UserError: an option is out of range.
    """

    repetition_penalty: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what would leave no token to draw."""
        if not 0.0 < self.repetition_penalty < math.inf:
            raise UserError(
                f"repetition_penalty: expected a positive number, got {self.repetition_penalty}. 1 penalises nothing."
            )
        if self.top_k < 0:
            raise UserError(f"top_k: expected 0 or a number of tokens, got {self.top_k}. 0 draws among all tokens.")
        if not 0.0 < self.top_p <= 1.0:
            raise UserError(
                f"top_p: expected a share above 0 and at most 1, got {self.top_p}. 1 draws among all tokens."
            )
        if not 0.0 <= self.min_p <= 1.0:
            raise UserError(f"min_p: expected a share from 0 to 1, got {self.min_p}. 0 draws among all tokens.")

    @property
    def penalises(self) -> bool:
        """Whether what has been said before matters."""
        return self.repetition_penalty != 1.0


ALL_TOKENS = SamplingRules()
"""Every token may be drawn, with its own probability."""
