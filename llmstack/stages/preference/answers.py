"""Log-probabilities of the answers of whole data sets; those of a reference are kept in the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mindspore import Tensor

from llmstack.data.answer_rows import AnswerRows, LabelledRows
from llmstack.data.cache import cached_folder
from llmstack.data.hashing import file_sha256
from llmstack.data.row_tables import Batch
from llmstack.engine.fingerprint import NUMERICS_VERSION, hash_json
from llmstack.stages.preference.inputs import AnswerInputs
from llmstack.stages.preference.objective import AnswerLogProbs


@dataclass(frozen=True)
class Scored:
    """What a model says of the answers of a data set.

    Attributes:
        logp: float32 (N, S), log-probability of each answer, in nats.
        mismatched: float32 (N,), of each prompt with the answer to another one; empty for pairs.
    """

    logp: np.ndarray
    mismatched: np.ndarray


class AnswerScorer:
    """Scores the answers of a data set.

    Args:
        rows: the answers.
        batch_rows: samples B of a batch.
    """

    def __init__(self, rows: AnswerRows, *, batch_rows: int) -> None:
        self._rows, self._batch_rows = rows, batch_rows
        self.inputs = AnswerInputs(rows, batch_rows=batch_rows)
        self.mismatched_inputs = AnswerInputs(rows, batch_rows=batch_rows, any_width=True)

    def score(self, cell: AnswerLogProbs, count: int) -> Scored:
        """Score the first samples, and for single answers the mismatched ones too.

        Args:
            cell: the model.
            count: how many samples N.
        """
        rows, none = self._rows, np.zeros(0, np.float32)
        logp = self._all(lambda batch: cell(*_tensors(self.inputs(batch))), rows.take, count, len(rows.sides))
        if not isinstance(rows, LabelledRows):
            return Scored(logp, none)
        return Scored(logp, self._all(lambda b: self.mismatched(cell, b), rows.mismatched, count, 1)[:, 0])

    def mismatched(self, cell: AnswerLogProbs, batch: Batch) -> Tensor:
        """Score a batch of prompts with the answers to others.

        Args:
            cell: the model.
            batch: what ``LabelledRows.mismatched`` gave.

        Returns:
            (B,) float32.
        """
        scored: Tensor = cell(*_tensors(self.mismatched_inputs(batch)))
        return scored

    def _all(
        self, score: Callable[[Batch], Tensor], take: Callable[[np.ndarray], Batch], count: int, sides: int
    ) -> np.ndarray:
        found = np.zeros((count, sides), np.float32)
        # rows of one length share a batch; what is left of a length fills up with rows of its own
        for group in self._rows.groups(self._batch_rows):
            wanted = group[group < count]
            for start in range(0, len(wanted), self._batch_rows):
                part = wanted[start : start + self._batch_rows]
                filled = np.resize(part, self._batch_rows)
                scored = score(take(filled)).asnumpy().reshape(sides, -1).T
                found[part] = scored[: len(part)]
        return found


def _tensors(batch: Batch) -> list[Tensor]:
    return [Tensor(array) for array in batch.values()]


def cached_scores(key: dict[str, object], build: Callable[[], Scored]) -> Scored:
    """Scores from the cache, made when they are not there.

    Args:
        key: everything they depend on.
        build: makes them.
    """

    def fill(folder: Path) -> None:
        scored = build()
        np.save(folder / "logp.npy", scored.logp, allow_pickle=False)
        np.save(folder / "mismatched.npy", scored.mismatched, allow_pickle=False)

    folder = cached_folder("reference_logp", hash_json({**key, "numerics": NUMERICS_VERSION}), fill)
    return Scored(*(np.load(folder / f"{name}.npy", allow_pickle=False) for name in ("logp", "mismatched")))


def weights_hash(model: Path) -> str:
    """Hash of a model's files, its tokenizer's left out where they tell them apart.

    Args:
        model: a model folder, or a file that holds a model.

    Returns:
        sha256 hex.
    """
    files = sorted(path for path in model.iterdir() if path.is_file()) if model.is_dir() else [model]
    counted = [path for path in files if not path.name.startswith(_TOKENIZER)]
    return hash_json({path.name if model.is_dir() else "": file_sha256(path) for path in counted})


_TOKENIZER = ("tokenizer", "chat_template", "special_tokens", "added_tokens", "vocab", "merges", "generation_config")
