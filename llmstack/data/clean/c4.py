"""Lines and pages that are no prose: Raffel et al. 2020 (JMLR 21/140), section 2.2.

Of the section's rules two are steps of their own: the language (``language``) and spans of three sentences that occur
more than once (``repeated_sentences``). The word list the authors use is not shipped; name a file of your own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmstack.data.clean.sentences import count_sentences
from llmstack.data.clean.step import Change, Document, Outcome, Step, drop, keep
from llmstack.data.files import read_text, resolve_files
from llmstack.errors import DataError

if TYPE_CHECKING:
    from llmstack.config.clean import C4Config

TERMINAL = (".", "!", "?", '"', "”", "’", "»", "。", "！", "？", "」", "』")
"""What a sentence ends with; the last five do the same in Chinese and Japanese."""
POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
_JAVASCRIPT = re.compile(r"\bjavascript\b", re.IGNORECASE)
_CITATION = re.compile(r"\[(?:\d+|edit|citation needed)\]", re.IGNORECASE)


def ends_sentence(line: str) -> bool:
    """Whether a line ends in a terminal punctuation mark; an ellipsis is none.

    Args:
        line: without white space at its end.
    """
    return line.endswith(TERMINAL) and not line.endswith("...")


def remove_citations(text: str) -> tuple[str, int]:
    """Remove markers such as ``[1]``, ``[edit]`` and ``[citation needed]``.

    Args:
        text: any.

    Returns:
        The text, and how many there were.
    """
    return _CITATION.subn("", text)


def read_words(pattern: str) -> re.Pattern[str]:
    """An expression that finds the words and phrases of some files, as whole words without regard to case.

    Args:
        pattern: a file or a glob; one word or phrase a line.

    Returns:
        The compiled expression.

    Raises:
        DataError: the files cannot be read, or hold no word.
    """
    words = {line.strip() for path in resolve_files(pattern) for line in read_text(path).splitlines() if line.strip()}
    if not words:
        raise DataError(f"{pattern}: expected a word or phrase a line, got only empty files. Name another.")
    # longest first: of two phrases with one beginning the longer is the better reason
    options = "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
    return re.compile(rf"(?<!\w)(?:{options})(?!\w)", re.IGNORECASE)


class C4(Step):
    """Removes lines, then drops documents.

    Args:
        config: which rules hold.
        seed: not used.

    Raises:
        DataError: ``bad_words`` cannot be read.
    """

    def __init__(self, config: C4Config, *, seed: int) -> None:
        self._config = config
        self._bad_words = read_words(config.bad_words) if config.bad_words is not None else None

    def apply(self, document: Document) -> Outcome:
        """Go through a document's lines, then judge what is left.

        Args:
            document: the document.

        Returns:
            The text of the lines that are kept, or why the document is dropped.
        """
        config, text = self._config, document.text
        if config.lorem_ipsum and "lorem ipsum" in text.lower():
            return drop("lorem ipsum")
        if config.curly_brackets and "{" in text:
            return drop("curly bracket", text[max(0, text.index("{") - 40) :])
        if self._bad_words is not None and self._bad_words.search(text):
            return drop("a word of the list")  # not shown: the reader of a report need not see it
        text, num_citations = remove_citations(text) if config.citations else (text, 0)
        removed: Counter[str] = Counter()
        shown: dict[str, str] = {}
        lines = []
        for line in text.split("\n"):
            reason = self._why_removed(line)
            if not reason:
                lines.append(line)
            else:
                removed[reason] += 1
                shown.setdefault(reason, line)
        changes = [Change(reason, count, shown[reason]) for reason, count in removed.items()]
        changes.append(Change("citations removed", num_citations, document.text))
        return self._judged("\n".join(lines).strip("\n"), changes)

    def _judged(self, text: str, changes: Sequence[Change]) -> Outcome:
        limit = self._config.min_sentences
        if limit is not None and count_sentences(text) < limit:
            return drop(f"fewer than {limit} sentences", changes=changes)
        return keep(text, *changes)

    def _why_removed(self, line: str) -> str:
        """Why a line goes, or the empty text; blank lines stay."""
        config, lower = self._config, line.lower().strip()
        if not lower:
            return ""
        if config.terminal_punctuation and not ends_sentence(lower):
            return "lines without a sentence's end"
        if config.min_line_words is not None and len(lower.split()) < config.min_line_words:
            return "short lines"
        if config.javascript_lines and _JAVASCRIPT.search(lower):
            return "Javascript lines"
        if config.policy_lines and any(phrase in lower for phrase in POLICY):
            return "policy lines"
        return ""
