"""Rows of a prompt with an answer each: pairs of answers to one prompt, and single answers with a label."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import Self

from llmstack.data.bucket_rows import bucket_for, bucket_groups
from llmstack.data.documents import Documents
from llmstack.data.row_tables import Batch, EncodeReport, Origin, Rows, ranges
from llmstack.data.token_space import TokenSpace


@dataclass(frozen=True)
class Spans:
    """Where the tokens of N samples lie; S answers a sample.

    Attributes:
        start: int64 (N, S), first token of each prompt.
        length: int32 (N, S), tokens of prompt and answer.
        answer: int32 (N, S), tokens of the answer at its end, fewer than ``length``.
    """

    start: np.ndarray
    length: np.ndarray
    answer: np.ndarray


class AnswerRows(Rows):
    """Samples of S answers each; a batch holds the first answer of all samples, then the second.

    Args:
        space: has the tokens.
        spans: where the rows lie in it.
        value: float32 (N,), the number each sample has.
        buckets: allowed row lengths T, ascending; a batch has the smallest that holds its samples.
        pad_id: id that fills rows.
        report: what became of the records.

    Attributes:
        noun: what the samples are, for messages.
        sides: what each of the S answers is called.
        value_name: what the number of a sample is called in a batch.
        row_answers: int64 (N,), answer tokens of each sample.
        widths: int64 (N,), bucket of each sample.
    """

    noun: ClassVar[str]
    sides: ClassVar[tuple[str, ...]]
    value_name: ClassVar[str]

    def __init__(
        self,
        space: TokenSpace,
        spans: Spans,
        value: np.ndarray,
        *,
        buckets: Sequence[int],
        pad_id: int,
        report: EncodeReport,
    ) -> None:
        self._space, self._spans, self.value = space, spans, value
        self._buckets, self._pad_id, self.report = tuple(buckets), pad_id, report
        self.row_tokens = spans.length.sum(axis=1, dtype=np.int64)
        self.row_answers = spans.answer.sum(axis=1, dtype=np.int64)
        self.widths = np.asarray(self._buckets, np.int64)[np.searchsorted(self._buckets, spans.length.max(axis=1))]

    @property
    def buckets(self) -> tuple[int, ...]:
        """Allowed row lengths."""
        return self._buckets

    @property
    def documents(self) -> list[Documents]:
        """The encoded answers the rows are made of, S documents a sample, of each data set."""
        return self._space.parts

    def take(self, indices: np.ndarray) -> Batch:
        """A batch of samples of one bucket.

        Args:
            indices: int (B,).

        Returns:
            ``tokens, positions, segments`` int32 (S*B, T), ``last`` int32 (S*B,) the place of each row's last token,
            ``answer`` int32 (S*B,) the tokens of its answer, which end there, and the samples' numbers under their
            name, float32 (B,).
        """
        start, length, answer = (
            array[indices].T.reshape(-1).astype(np.int64)
            for array in (self._spans.start, self._spans.length, self._spans.answer)
        )
        places = np.repeat(start, length) + ranges(np.zeros(len(length), np.int64), length)
        return self.padded(places, length, answer) | {self.value_name: self.value[indices]}

    def padded(self, places: np.ndarray, length: np.ndarray, answer: np.ndarray) -> Batch:
        """Rows of any tokens.

        Args:
            places: int64, where the tokens of all rows lie, one row after the other.
            length: int64 (M,), tokens of each row.
            answer: int64 (M,), tokens of the answer at its end.

        Returns:
            A batch without the samples' numbers.
        """
        width = bucket_for(self._buckets, int(length.max()))
        within = ranges(np.zeros(len(length), np.int64), length)
        target = np.repeat(np.arange(len(length)) * width, length) + within
        batch = {
            "tokens": np.full((len(length), width), self._pad_id, np.int32),
            "positions": np.zeros((len(length), width), np.int32),
            "segments": np.zeros((len(length), width), np.int32),
            "last": (length - 1).astype(np.int32),
            "answer": answer.astype(np.int32),
        }
        batch["tokens"].reshape(-1)[target] = self._space.tokens(places)
        batch["positions"].reshape(-1)[target] = within
        batch["segments"].reshape(-1)[target] = 1
        self._space.note_reads(len(length), len(target))
        return batch

    def answer_tokens(self, indices: np.ndarray) -> np.ndarray:
        """Tokens of the answers of some samples.

        Args:
            indices: int (B,).

        Returns:
            int32 (S*B,), in the order of a batch's rows.
        """
        return self._spans.answer[indices].T.reshape(-1)

    @abstractmethod
    def good(self, indices: np.ndarray) -> np.ndarray:
        """Which answers of some samples are the better or good ones.

        Args:
            indices: int (B,).

        Returns:
            float32 (S*B,) of 0 and 1, in the order of a batch's rows.
        """

    def origins(self, row: int) -> list[Origin]:
        """Where a sample comes from, for each of its answers.

        Args:
            row: its number.
        """
        return [Origin(*self._space.origin(int(start))) for start in self._spans.start[row]]

    def answer_masks(self, row: int) -> list[np.ndarray]:
        """Which tokens of a sample are the answer, for each of its answers.

        Args:
            row: its number.

        Returns:
            S int32 (T,) of 0 and 1, without padding.
        """
        lengths, answers = self._spans.length[row], self._spans.answer[row]
        return [
            (np.arange(length) >= length - answer).astype(np.int32)
            for length, answer in zip(lengths, answers, strict=True)
        ]

    def groups(self, batch_rows: int) -> list[np.ndarray]:
        """Samples by bucket (see :func:`llmstack.data.bucket_rows.bucket_groups`).

        Args:
            batch_rows: samples B of a batch.
        """
        return bucket_groups(self._spans.length.max(axis=1), self._buckets, batch_rows)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The samples of several data sets with one set of buckets, one set after the other.

        Args:
            parts: at least one.
        """
        space = TokenSpace([documents for part in parts for documents in part._space.parts])
        starts = np.cumsum([0, *(part._space.starts[-1] for part in parts)])
        spans = Spans(
            np.concatenate([part._spans.start + start for part, start in zip(parts, starts[:-1], strict=True)]),
            np.concatenate([part._spans.length for part in parts]),
            np.concatenate([part._spans.answer for part in parts]),
        )
        first = parts[0]
        padding = 1.0 - float(spans.length.sum()) / (spans.length.size * first._buckets[-1])
        return cls(
            space,
            spans,
            np.concatenate([part.value for part in parts]),
            buckets=first._buckets,
            pad_id=first._pad_id,
            report=EncodeReport.joined([part.report for part in parts], padding),
        )

    def blank(self, batch: Batch, padding: np.ndarray) -> None:
        """Empty the samples that only fill a batch up.

        Args:
            batch: changed in place.
            padding: bool (B,), true for the samples to empty.
        """
        rows = np.tile(padding, len(self.sides))
        for name in ("positions", "segments", "last", "answer"):
            batch[name][rows] = 0
        batch[self.value_name][padding] = 0.0


class PreferenceRows(AnswerRows):
    """Pairs of answers to one prompt, the better first; the number of a pair is its margin."""

    noun = "pairs"
    sides = ("chosen", "rejected")
    value_name = "margin"

    def good(self, indices: np.ndarray) -> np.ndarray:
        """1 for the chosen answers, 0 for the rejected ones.

        Args:
            indices: int (B,).

        Returns:
            float32 (2B,).
        """
        return np.repeat(np.asarray([1.0, 0.0], np.float32), len(indices))


class LabelledRows(AnswerRows):
    """Single answers; the number of an answer is 1 for a good one, 0 for a bad one."""

    noun = "answers"
    sides = ("answer",)
    value_name = "good"

    def good(self, indices: np.ndarray) -> np.ndarray:
        """The labels.

        Args:
            indices: int (B,).

        Returns:
            float32 (B,).
        """
        return self.value[indices]

    def mismatched(self, indices: np.ndarray) -> Batch:
        """The prompts of some rows, each with the answer to another prompt: that of the next row whose prompt differs.

        The partner is the same whatever the batch, so that it can be scored beforehand. Where prompt and answer do not
        fit into a row together, the beginning of the prompt goes.

        Args:
            indices: int (B,).

        Returns:
            A batch as ``take`` gives it, with rows of the longest bucket at most.
        """
        spans, partner = self._spans, self.partners[indices]
        answer = spans.answer[partner, 0].astype(np.int64)
        own = (spans.length - spans.answer)[indices, 0].astype(np.int64)
        prompt = np.minimum(own, self._buckets[-1] - answer)
        starts = np.stack(
            [
                spans.start[indices, 0] + own - prompt,
                spans.start[partner, 0] + spans.length[partner, 0] - answer,
            ],
            axis=1,
        )
        counts = np.stack([prompt, answer], axis=1)
        return self.padded(ranges(starts.reshape(-1), counts.reshape(-1)), prompt + answer, answer)

    @property
    def partners(self) -> np.ndarray:
        """int64 (N,): for each row the next one, in a circle, whose prompt differs; the next one when none does."""
        if self._partners is None:
            self._partners = next_other(self._prompt_keys())
        return self._partners

    _partners: np.ndarray | None = None

    def _prompt_keys(self) -> np.ndarray:
        """A number for each different prompt."""
        seen: dict[bytes, int] = {}
        starts, lengths = self._spans.start[:, 0], (self._spans.length - self._spans.answer)[:, 0]
        found = [
            seen.setdefault(self._space.tokens(np.arange(start, start + length)).tobytes(), len(seen))
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ]
        return np.asarray(found, np.int64)


def next_other(keys: np.ndarray) -> np.ndarray:
    """For each place the next one, in a circle, that has another key; the next one when all keys are the same.

    Args:
        keys: int (N,).

    Returns:
        int64 (N,).
    """
    count = len(keys)
    following = (np.arange(count) + 1) % count
    if (keys == keys[0]).all():
        return following
    twice = np.concatenate([keys, keys])
    # where a run of equal keys ends, the next place has another key
    changes = np.flatnonzero(twice[1:] != twice[:-1]) + 1
    return changes[np.searchsorted(changes, np.arange(count), side="right")] % count
