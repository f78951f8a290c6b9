"""The quickstart's three data sources, all from one reading of the standard library.

``train``, ``policy`` and ``eval`` hold different function names and different wordings (see ``summaries.split_of``),
and the documentation text of a function is in the same split as its summary: what is measured on ``eval`` was in no
training text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from llmstack.data.records import PreferenceRecord, Record, ResponseRecord, TextRecord
from llmstack.data.stdlib.pairs import style_pairs
from llmstack.data.stdlib.reader import library_fingerprint, read_stdlib
from llmstack.data.stdlib.summaries import read_summaries, split_of

if TYPE_CHECKING:
    from llmstack.config.data import StdlibConfig, StdlibSignaturesConfig
    from llmstack.data.stdlib.summaries import Summary

T = TypeVar("T", bound=Record)


def shuffled(records: Iterable[T], *, seed: int, limit: int | None) -> list[Record]:
    """Records in a seeded order, of which the first ``limit`` are kept.

    Args:
        records: in the order of the files.
        seed: the recipe's.
        limit: how many to keep; None keeps all.

    Returns:
        The records.
    """
    found = list(records)
    order = np.random.default_rng(seed).permutation(len(found))[:limit]
    return [found[place] for place in order]


class _StdlibSource:
    """What the three sources share."""

    def __init__(self, config: StdlibConfig, *, seed: int) -> None:
        self._config, self._seed = config, seed

    def fingerprint(self) -> str:
        """Version and files of the library on this machine."""
        return library_fingerprint()


class StdlibDocs(_StdlibSource):
    """Documentation text: every docstring and every help topic, each once.

    ``train`` and ``policy`` are the same text (all that may be trained on), ``eval`` is the rest.
    """

    def records(self) -> list[Record]:
        """One ``TextRecord`` a docstring or topic.

        Returns:
            The records of the split in seeded order.
        """
        in_eval: dict[bool, dict[str, TextRecord]] = {False: {}, True: {}}
        for item in read_stdlib():
            side = in_eval[split_of(item.name) == "eval"]
            side.setdefault(item.text, TextRecord(item.text, where=item.where))
        wanted, other = in_eval[self._config.split == "eval"], in_eval[False]
        if self._config.split == "eval":
            wanted = {text: record for text, record in wanted.items() if text not in other}
        return shuffled(wanted.values(), seed=self._seed, limit=self._config.limit)


class _SignatureSource(_StdlibSource):
    """What the sources of signatures share."""

    _config: StdlibSignaturesConfig

    def _summaries(self) -> list[Summary]:
        longest = self._config.max_prompt_chars
        found = read_summaries()[self._config.split]
        return [item for item in found if longest is None or len(item.signature) <= longest]


class StdlibSummaries(_SignatureSource):
    """A function's signature, and the summary its authors wrote, in whatever style."""

    def records(self) -> list[Record]:
        """One ``ResponseRecord`` a (signature, summary).

        Returns:
            The records of the split in seeded order.
        """
        found = (ResponseRecord(item.signature, item.text, where=item.where) for item in self._summaries())
        return shuffled(found, seed=self._seed, limit=self._config.limit)


class StdlibStylePairs(_SignatureSource):
    """Two summaries of one signature: chosen keeps PEP 257's style, rejected does not."""

    def records(self) -> list[Record]:
        """One ``PreferenceRecord`` a pair.

        Returns:
            The records of the split in seeded order.
        """
        pairs = style_pairs(self._summaries(), seed=self._seed)
        found = (
            PreferenceRecord(pair.summary.signature, pair.chosen, pair.rejected, where=pair.summary.where)
            for pair in pairs
        )
        return shuffled(found, seed=self._seed, limit=self._config.limit)
