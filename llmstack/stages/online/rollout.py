"""Prompts and sampled answers side by side in one array, and the positions at which models read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from llmstack.data.loader import Batch
from llmstack.generation.generator import Generated
from llmstack.rl.rewards_api import RewardBatch


@dataclass(frozen=True)
class Rollout:
    """One answer to each prompt; T = P + R.

    Attributes:
        tokens_BT: int32, prompt padded on the left, answer padded on the right.
        positions_BT: int32, from 0 at the prompt's first real token.
        segments_BT: int32, 1 on real tokens.
        response_BR: int32, the answers.
        mask_BR: float32, 1 on the answers' real tokens, the end token included.
        finished_B: bool, False for answers cut off by the length limit.
        sampled_logp_BR: float32, log-probabilities the sampler saw.
        texts: prompts and answers as text, for rewards.
    """

    tokens_BT: np.ndarray
    positions_BT: np.ndarray
    segments_BT: np.ndarray
    response_BR: np.ndarray
    mask_BR: np.ndarray
    finished_B: np.ndarray
    sampled_logp_BR: np.ndarray
    texts: RewardBatch

    @property
    def prompt_len(self) -> int:
        """Padded prompt length P."""
        return self.tokens_BT.shape[1] - self.response_BR.shape[1]

    @property
    def last_B(self) -> np.ndarray:
        """int32 (B,), index into T of each answer's last real token."""
        return (self.prompt_len - 1 + self.mask_BR.sum(axis=1)).astype(np.int32)

    @property
    def num_tokens(self) -> int:
        """Real tokens of prompts and answers."""
        return int(self.segments_BT.sum())

    def inputs(self, rows: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """What every model reads.

        Args:
            rows: which rows; None takes all.

        Returns:
            ``tokens, positions, segments`` int32 (M, T).
        """
        chosen = slice(None) if rows is None else rows
        return {
            "tokens": self.tokens_BT[chosen],
            "positions": self.positions_BT[chosen],
            "segments": self.segments_BT[chosen],
        }

    def take(self, rows: np.ndarray) -> Rollout:
        """Some of the answers.

        Args:
            rows: int (M,), which.
        """
        arrays = {name: array[rows] for name, array in _arrays(self).items()}
        texts = {name: items and [items[row] for row in rows] for name, items in vars(self.texts).items()}
        return replace(self, **arrays, texts=RewardBatch(**texts))

    def states(self, num_rows: int, *, after_last: bool = False) -> np.ndarray:
        """Flat indices of the states an answer's tokens were chosen in: the position before each token.

        Args:
            num_rows: rows M of the batch that is indexed.
            after_last: add the state after the last of the R places, so that R + 1 come out for each row.

        Returns:
            int32 (M * R,) or (M * (R + 1),), indices into the M * T positions.
        """
        width = self.tokens_BT.shape[1]
        first = self.prompt_len - 1
        places = np.arange(first, width if after_last else width - 1)
        return (np.arange(num_rows)[:, None] * width + places).astype(np.int32).reshape(-1)


def join(rollouts: Sequence[Rollout]) -> Rollout:
    """One rollout of several with answers of one R, padded on the left to the longest padded prompt.

    Args:
        rollouts: at least one.
    """
    width = max(rollout.tokens_BT.shape[1] for rollout in rollouts)
    parts = [_arrays(rollout, width) for rollout in rollouts]
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    texts = [vars(rollout.texts) for rollout in rollouts]
    lists = {name: first and [item for text in texts for item in text[name]] for name, first in texts[0].items()}
    return replace(rollouts[0], **arrays, texts=RewardBatch(**lists))


def _arrays(rollout: Rollout, width: int = 0) -> dict[str, np.ndarray]:
    """The arrays by name, those of T places padded on the left to a width."""
    found = {}
    for field in fields(rollout):
        array = getattr(rollout, field.name)
        if isinstance(array, np.ndarray):
            missing = max(width - array.shape[1], 0) if field.name.endswith("_BT") else 0
            found[field.name] = np.pad(array, ((0, 0), (missing, 0))) if missing else array
    return found


def assemble(prompts: Batch, answers: Generated, texts: RewardBatch) -> Rollout:
    """Put prompts and answers together.

    Args:
        prompts: ``tokens`` (B, P) left-padded and ``lengths`` (B,).
        answers: what the generator gave for them.
        texts: the same as text.

    Returns:
        The rollout.
    """
    num_rows, prompt_len = prompts["tokens"].shape
    width = prompt_len + answers.tokens.shape[1]
    start_B1 = (prompt_len - prompts["lengths"])[:, None]
    end_B1 = (prompt_len + answers.lengths)[:, None]
    places_T = np.arange(width)
    real_BT = (places_T >= start_B1) & (places_T < end_B1)
    return Rollout(
        tokens_BT=np.concatenate([prompts["tokens"], answers.tokens], axis=1).astype(np.int32),
        positions_BT=np.where(real_BT, places_T - start_B1, 0).astype(np.int32),
        segments_BT=real_BT.astype(np.int32),
        response_BR=answers.tokens.astype(np.int32),
        mask_BR=real_BT[:, prompt_len:].astype(np.float32),
        finished_B=answers.finished.astype(bool),
        sampled_logp_BR=answers.logp,
        texts=texts,
    )
