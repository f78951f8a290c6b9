"""How often a reward model prefers the better answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mindspore import Tensor
from tqdm import tqdm

from llmstack.data.encode import prompt_and_answer
from llmstack.data.field_map import FieldMap
from llmstack.data.jsonl import json_rows
from llmstack.data.kinds import preference_record
from llmstack.data.records import PreferenceRecord
from llmstack.errors import DataError
from llmstack.evaluation.likelihood import BATCH_TOKENS, length_bucket
from llmstack.evaluation.loading import Loaded
from llmstack.evaluation.questions import ON_THE_COMMAND_LINE
from llmstack.evaluation.report import Report
from llmstack.models.scalar_model import ScalarModel
from llmstack.rl.preference_stats import ScoredPairs, preference_stats
from llmstack.stages.scoring import LastScores


def read_pairs(pattern: str, fields: Mapping[str, str]) -> list[PreferenceRecord]:
    """Pairs from a JSON Lines file: objects with ``prompt``, ``chosen`` and ``rejected``, or two conversations.

    Args:
        pattern: a file or a glob.
        fields: our name of a field -> the file's, where they differ.

    Raises:
        DataError: a file that does not exist or holds no row, or a row that is not as above.
    """
    return [preference_record(row) for row in json_rows(pattern, FieldMap(fields, mapping=ON_THE_COMMAND_LINE))]


class LastScorer:
    """Scores of conversations under a reward model, read at their last token.

    Args:
        model: the reward model.
    """

    def __init__(self, model: ScalarModel) -> None:
        self._scores = LastScores(model)

    def score(self, conversations: Sequence[Sequence[int]]) -> np.ndarray:
        """Score each.

        Args:
            conversations: token ids, of any length that the model's context holds.

        Returns:
            (N,) float64.
        """
        scores = np.zeros(len(conversations))
        buckets: dict[int, list[int]] = {}
        for index, ids in enumerate(conversations):
            buckets.setdefault(length_bucket(len(ids)), []).append(index)
        for length, indices in tqdm(sorted(buckets.items()), unit="length", disable=None, leave=False):
            rows = max(1, BATCH_TOKENS // length)
            for start in range(0, len(indices), rows):
                part = indices[start : start + rows]
                scores[part] = self._batch([conversations[index] for index in part], rows, length)
        return scores

    def _batch(self, conversations: Sequence[Sequence[int]], rows: int, length: int) -> np.ndarray:
        tokens, positions, segments = np.zeros((3, rows, length), np.int32)
        last = np.zeros(rows, np.int32)
        for row, ids in enumerate(conversations):
            size = len(ids)
            tokens[row, :size], positions[row, :size], segments[row, :size] = ids, np.arange(size), 1
            last[row] = size - 1
        scores = self._scores(Tensor(tokens), Tensor(positions), Tensor(segments), Tensor(last))
        return scores.asnumpy()[: len(conversations)].astype(np.float64)


def preference_accuracy(loaded: Loaded[ScalarModel], pairs: Sequence[PreferenceRecord]) -> Report:
    """Score both answers of each pair.

    Args:
        loaded: the reward model.
        pairs: the data.

    Returns:
        ``pairs`` and all that :func:`llmstack.rl.preference_stats.preference_stats` gives; a row a pair.

    Raises:
        DataError: a pair that does not fit into the model's context, or that the chat template refuses.
    """
    wheres = [pair.where for pair in pairs]
    tokenizer = loaded.tokenizer
    cut = [
        prompt_and_answer(tokenizer, pairs, answers)
        for answers in ([pair.chosen for pair in pairs], [pair.rejected for pair in pairs])
    ]
    both = [[before + answer for before, answer in found] for found in cut]
    for conversations in both:
        for ids, where in zip(conversations, wheres, strict=True):
            if len(ids) > loaded.context:
                raise DataError(
                    f"{where}: expected prompt and answer within the model's context of {loaded.context} tokens, got "
                    f"{len(ids)}. Shorten them."
                )
    scores = LastScorer(loaded.model).score([*both[0], *both[1]])
    chosen, rejected = np.split(scores, 2)
    lengths = [np.array([len(answer) for _, answer in found]) for found in cut]
    stats = preference_stats(ScoredPairs(chosen, rejected, *lengths))
    numbers = {"pairs": len(pairs)} | {k: int(n) if k.startswith("pairs_") else n for k, n in stats.items()}
    rows = [
        {"where": where, "chosen": float(good), "rejected": float(bad)}
        for where, good, bad in zip(wheres, chosen, rejected, strict=True)
    ]
    return Report("reward", numbers, rows)
