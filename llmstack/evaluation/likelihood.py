"""Log-probabilities of given tokens, whatever the lengths of their texts, from few compiled graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from tqdm import tqdm

from llmstack.losses.logprob import TokenLogProbs
from llmstack.models.causal_lm import CausalLM

BATCH_TOKENS = 1024
"""Tokens of a batch, padding included, unless one text needs more."""
TARGETS = 256
"""Positions whose logits are taken at once."""
_SHORTEST = 16


@dataclass(frozen=True)
class Target:
    """Some tokens and those of them whose probability is asked for.

    Attributes:
        ids: token ids, at least two.
        start: log-probabilities are wanted of ``ids[start:]``, each given all ids before it; at least 1.
    """

    ids: Sequence[int]
    start: int


@dataclass(frozen=True)
class Likelihood:
    """What the model thinks of a target's tokens; n of them.

    Attributes:
        logp: (n,) float32, log softmax(z) of each, in nats.
        greedy: (n,) bool, whether no other token is likelier.
    """

    logp: np.ndarray
    greedy: np.ndarray


class _Hidden(nn.Cell):
    """The trunk's output, flat.

    Args:
        model: the language model.
    """

    def __init__(self, model: CausalLM) -> None:
        super().__init__(auto_prefix=False)
        self.trunk = model.trunk
        self.hidden_size = model.config.hidden_size

    def construct(self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor) -> Tensor:
        return ops.reshape(self.trunk(tokens_BT, positions_BT, segments_BT), (-1, self.hidden_size))


class _Head(nn.Cell):
    """Log-probabilities at chosen positions.

    Args:
        model: the language model.
    """

    def __init__(self, model: CausalLM) -> None:
        super().__init__(auto_prefix=False)
        self.head = model.head
        self.logp = TokenLogProbs()
        self.temperature = Tensor(np.ones(1, np.float32))
        self.largest = ops.ReduceMax(keep_dims=True)

    def construct(self, hidden_ND: Tensor, targets_C: Tensor, labels_C: Tensor) -> tuple[Tensor, Tensor]:
        logits_CV = self.head(ops.gather(hidden_ND, targets_C, 0))
        logp_C, _ = self.logp(logits_CV, labels_C, self.temperature)
        chosen_C1 = ops.gather_elements(logits_CV, 1, ops.expand_dims(labels_C, 1))
        greedy_C1 = ops.greater_equal(chosen_C1, self.largest(logits_CV, 1))
        return logp_C, ops.reshape(ops.cast(greedy_C1, ms.float32), (-1,))


class LikelihoodScorer:
    """Log-probabilities under a language model at temperature 1.

    Texts are padded to the next power of two and put together with others of that length, always about the same number
    of tokens at once. The trunk is one graph a length; its flat output has one shape for all of them, so the head is
    one graph, and sees the wanted positions only.

    Args:
        model: the language model.
    """

    def __init__(self, model: CausalLM) -> None:
        self._trunk, self._head = _Hidden(model), _Head(model)

    def score(self, targets: Sequence[Target]) -> list[Likelihood]:
        """Score the tokens of each target.

        Args:
            targets: in any order, of any length that the model's context holds.

        Returns:
            A likelihood for each target.
        """
        found: list[Likelihood | None] = [None] * len(targets)
        batches = list(_batches([len(target.ids) - 1 for target in targets]))
        for length, rows, indices in tqdm(batches, unit="batch", disable=None, leave=False):
            for index, likelihood in zip(indices, self._batch(targets, length, rows, indices), strict=True):
                found[index] = likelihood
        return [likelihood for likelihood in found if likelihood is not None]

    def _batch(self, targets: Sequence[Target], length: int, rows: int, indices: Sequence[int]) -> list[Likelihood]:
        chosen = [targets[index] for index in indices]
        tokens, positions, segments = np.zeros((3, rows, length), np.int32)
        for row, target in enumerate(chosen):
            size = len(target.ids) - 1
            tokens[row, :size], positions[row, :size], segments[row, :size] = target.ids[:-1], np.arange(size), 1
        hidden_ND = self._trunk(Tensor(tokens), Tensor(positions), Tensor(segments))
        places = np.concatenate(
            [row * length + np.arange(t.start - 1, len(t.ids) - 1) for row, t in enumerate(chosen)]
        ).astype(np.int32)
        labels = np.concatenate([np.asarray(t.ids[t.start :], np.int32) for t in chosen])
        logp, greedy = self._at(hidden_ND, places, labels)
        ends = np.cumsum([len(t.ids) - t.start for t in chosen])[:-1]
        return [Likelihood(*parts) for parts in zip(np.split(logp, ends), np.split(greedy, ends), strict=True)]

    def _at(self, hidden_ND: Tensor, places: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pieces = []
        for start in range(0, len(places), TARGETS):
            inputs = np.zeros((2, TARGETS), np.int32)
            count = min(TARGETS, len(places) - start)
            inputs[0, :count], inputs[1, :count] = places[start : start + count], labels[start : start + count]
            logp, greedy = self._head(hidden_ND, Tensor(inputs[0].copy()), Tensor(inputs[1].copy()))
            pieces.append((logp.asnumpy()[:count].copy(), greedy.asnumpy()[:count] > 0))
        return np.concatenate([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces])


def length_bucket(length: int) -> int:
    """The padded length of a text: the next power of two, from 16 up.

    Args:
        length: its tokens.
    """
    return max(_SHORTEST, 1 << (length - 1).bit_length())


def _batches(lengths: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
    """(padded length, rows, indices) of each batch; padded length times rows is the same for all."""
    buckets: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        buckets.setdefault(length_bucket(length), []).append(index)
    batch_tokens = max([BATCH_TOKENS, *buckets])
    for length, indices in sorted(buckets.items()):
        rows = batch_tokens // length
        for start in range(0, len(indices), rows):
            yield length, rows, indices[start : start + rows]
