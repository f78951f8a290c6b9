"""Masks what identifies a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from phonenumbers import SUPPORTED_REGIONS

from llmstack.data.clean.identifiers import (
    Span,
    find_cards,
    find_emails,
    find_ibans,
    find_ips,
    find_phones,
    without_overlaps,
)
from llmstack.data.clean.step import Change, Document, Outcome, Step, keep
from llmstack.errors import DataError

if TYPE_CHECKING:
    from llmstack.config.clean import PersonalDataConfig

_CONTEXT_CHARS = 40


class PersonalData(Step):
    """Puts texts in the place of personal data and drops nothing.

    Args:
        config: what is masked, and by which texts.
        seed: not used.

    Raises:
        DataError: an unknown country in ``phone_regions``.
    """

    def __init__(self, config: PersonalDataConfig, *, seed: int) -> None:
        unknown = sorted(set(config.phone_regions) - SUPPORTED_REGIONS)
        if unknown:
            raise DataError(
                f"phone_regions: expected ISO 3166 codes of countries, got {', '.join(unknown)}. "
                "Correct it, e.g. GB for the United Kingdom."
            )
        phones = partial(find_phones, regions=config.phone_regions)
        # most certain first: where two kinds overlap, the first is taken
        kinds: Sequence[tuple[str, str | None, Callable[[str], list[Span]]]] = (
            ("e-mail address", config.email, find_emails),
            ("account number", config.iban, find_ibans),
            ("card number", config.card, find_cards),
            ("IP address", config.ip, find_ips),
            ("phone number", config.phone, phones),
        )
        self._finders = [(kind, find) for kind, text, find in kinds if text is not None]
        self._masks = {kind: text for kind, text, _ in kinds if text is not None}

    def mask(self, text: str) -> str:
        """A text with the masks in it.

        Args:
            text: any.
        """
        return self._masked(text)[0]

    def apply(self, document: Document) -> Outcome:
        """Mask a document.

        Args:
            document: the document.

        Returns:
            The masked text, and what was masked; examples show masked text only.
        """
        text, found = self._masked(document.text)
        changes = [
            Change(kind, len(places), text[max(0, places[0] - _CONTEXT_CHARS) :]) for kind, places in found.items()
        ]
        return keep(text, *changes)

    def _masked(self, text: str) -> tuple[str, dict[str, list[int]]]:
        """The masked text, and where in it the masks of each kind are."""
        pieces: list[str] = []
        found: dict[str, list[int]] = {}
        end = length = 0
        for start, stop, kind in without_overlaps([(kind, find(text)) for kind, find in self._finders]):
            found.setdefault(kind, []).append(length + start - end)
            pieces += [text[end:start], self._masks[kind]]
            length += start - end + len(self._masks[kind])
            end = stop
        return "".join([*pieces, text[end:]]), found
