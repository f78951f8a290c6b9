"""Text the policy goes on predicting while it learns from a reward (Ouyang et al. 2022, equation 2: PPO-ptx)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from mindspore import Tensor, nn

from llmstack.config.ppo import PretrainingConfig
from llmstack.data.corpus import Corpus
from llmstack.data.loader import Loader
from llmstack.models.causal_lm import CausalLM
from llmstack.stages.language import TargetInputs
from llmstack.stages.objectives import LanguageObjective
from llmstack.stages.online.updates import Cut


class TextMix:
    """Batches of text for the updates of a policy.

    Args:
        corpus: makes rows of the text.
        config: which text, and how much of it.
        accumulate: micro-batches of one update.
        seed: of the order of the rows.
    """

    def __init__(self, corpus: Corpus, config: PretrainingConfig, *, accumulate: int, seed: int) -> None:
        ratio = config.max_untrained_ratio
        rows = corpus.packed(config.data, config.data_kind, config.seq_len, max_untrained_ratio=ratio)
        micro_rows = config.batch_rows // accumulate
        self._config, self._accumulate = config, accumulate
        self.loader = Loader(rows, batch_rows=micro_rows, seed=seed)
        self._inputs = TargetInputs(rows, batch_rows=micro_rows)

    @property
    def coef(self) -> float:
        """Weight of the loss."""
        return self._config.coef

    def add_to(self, step: Cut) -> Cut:
        """Put the next text before the inputs of each micro-batch.

        Args:
            step: an update of the policy.

        Returns:
            The inputs of :class:`WithText`, in its order. The weights of the text's tokens are such that its loss is
            ``coef`` times the mean over the text, whatever the policy's loss is divided by.
        """
        texts = [self._inputs(self.loader.next()) for _ in range(self._accumulate)]
        tokens = sum(float(text["mask"].sum()) for text in texts)
        weight = np.float32(self.coef * max(step.count, 1.0) / max(tokens, 1.0))
        before = [
            {f"text_{name}": array * weight if name == "mask" else array for name, array in text.items()}
            for text in texts
        ]
        return replace(step, batches=[text | batch for text, batch in zip(before, step.batches, strict=True)])

    def drain(self) -> dict[str, list[int]]:
        """The rows of text that were read since the last call, for ``rows.jsonl``."""
        rows = self.loader.drain().rows
        return {"pretraining": [row for found in rows.values() for row in found]} if rows else {}

    def state(self) -> dict[str, Any]:
        """The position in the text."""
        return self.loader.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken.

        Args:
            state: what ``state()`` gave.
        """
        self.loader.restore(state)


class WithText(nn.Cell):
    """An objective of the policy with the language loss of some text added.

    Args:
        objective: the policy's.
        model: the policy.
    """

    def __init__(self, objective: nn.Cell, model: CausalLM) -> None:
        super().__init__(auto_prefix=False)
        self.objective = objective
        self.language = LanguageObjective(model, z_loss=0.0)

    def construct(  # noqa: PLR0913 - the inputs of a graph
        self,
        inv_count: Tensor,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        segments_BT: Tensor,
        targets_C: Tensor,
        labels_C: Tensor,
        weight_C: Tensor,
        *inputs: Tensor,
    ) -> tuple[Tensor, ...]:
        """This micro-batch's share of the loss.

        Args:
            inv_count: () float32, 1 over what the loss of ``objective`` is divided by; so is that of the text.
            tokens_BT: (B, T) int32, rows of text.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32.
            targets_C: (C,) int32, trained positions.
            labels_C: (C,) int32, the token after each.
            weight_C: (C,) float32, weight of each token's loss.
            inputs: what ``objective`` takes.

        Returns:
            What ``objective`` gives with the text's loss added to the first, and that loss itself as the last.
        """
        text, _ = self.language(inv_count, tokens_BT, positions_BT, segments_BT, targets_C, labels_C, weight_C)
        of_policy = self.objective(inv_count, *inputs)
        return (of_policy[0] + text, *of_policy[1:], text)
