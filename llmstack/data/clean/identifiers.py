"""Where personal data is in a text: patterns to find candidates, check digits and ranges to judge them."""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_left
from collections.abc import Sequence

from phonenumbers import Leniency, PhoneNumberMatcher

Span = tuple[int, int]
"""Start and end in the text."""

_EMAIL = re.compile(
    r"(?<![\w.+-])[A-Za-z0-9](?:[A-Za-z0-9._%+-]{0,62}[A-Za-z0-9_%+-])?@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+"
    r"[A-Za-z]{2,24}(?![\w@-])"
)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f]{1,4}:)(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
_CARD = re.compile(r"(?<![\d.,-])(?<!\d )\d(?:[ -]?\d){12,18}(?![.,-]?\d| \d)")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_MIN_IBAN_CHARS = 15
"""Norway's, the shortest."""
_MANY_DIGITS = re.compile(r"(?:\d[^\w\n]{0,3}){7}")
"""Without seven digits close together there is no phone number, and nothing is asked of the slow matcher."""
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
"""All that is given out (RFC 4291): other texts with colons in them are rarely addresses."""


def find_emails(text: str) -> list[Span]:
    """E-mail addresses.

    Args:
        text: any.
    """
    return [match.span() for match in _EMAIL.finditer(text)] if "@" in text else []


def find_ips(text: str) -> list[Span]:
    """IPv4 and IPv6 addresses that are public: private, local and documentation ranges point at nobody.

    Args:
        text: any.
    """
    candidates = [*_IPV4.finditer(text), *(_IPV6.finditer(text) if ":" in text else ())]
    return [match.span() for match in candidates if _is_public(match[0])]


def _is_public(candidate: str) -> bool:
    try:
        address = ipaddress.ip_address(candidate)
    except ValueError:
        return False
    return address.is_global and (address.version == 4 or address in _GLOBAL_IPV6)


def find_cards(text: str) -> list[Span]:
    """Payment card numbers: 13 to 19 digits, alone or in groups, with an issuer's beginning and a right last digit.

    Args:
        text: any.
    """
    return [match.span() for match in _CARD.finditer(text) if is_card(re.sub("[ -]", "", match[0]))]


def is_card(digits: str) -> bool:
    """Whether digits begin as card numbers do (ISO/IEC 7812: 2 to 6) and the Luhn sum ends in 0.

    Args:
        digits: 13 to 19 of them.
    """
    return digits[0] in "23456" and len(set(digits)) > 1 and luhn_sum(digits) % 10 == 0


def luhn_sum(digits: str) -> int:
    """Luhn's sum (ISO/IEC 7812-1, annex B): every second digit from the right doubled, digit sums added.

    Args:
        digits: with the check digit.
    """
    doubled = [2 * int(digit) if place % 2 else int(digit) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled)


def find_ibans(text: str) -> list[Span]:
    """International bank account numbers, in one piece or in groups of four, with right check digits.

    Words in capitals behind a number look like more groups of it, so the longest part with a right sum is taken.

    Args:
        text: any.
    """
    found = []
    for match in _IBAN.finditer(text):
        candidate = match[0]
        ends = [len(candidate), *(space.start() for space in reversed(list(re.finditer(" ", candidate))))]
        for end in ends:
            number = candidate[:end].replace(" ", "")
            if len(number) >= _MIN_IBAN_CHARS and iban_remainder(number) == 1:
                found.append((match.start(), match.start() + end))
                break
    return found


def iban_remainder(number: str) -> int:
    """The remainder that is 1 for a right number (ISO 13616, ISO 7064 MOD 97-10).

    Args:
        number: capital letters and digits, without spaces.
    """
    return int("".join(str(int(character, 36)) for character in number[4:] + number[:4])) % 97


def find_phones(text: str, regions: Sequence[str]) -> list[Span]:
    """Phone numbers that can exist by their country's numbering plan (Google's libphonenumber).

    Args:
        text: any.
        regions: countries whose national form counts, as ISO 3166 codes; numbers with ``+`` count anyway.
    """
    if not _MANY_DIGITS.search(text):
        return []
    found: list[Span] = []
    for region in regions or (None,):
        matcher = PhoneNumberMatcher(text, region, leniency=Leniency.VALID, max_tries=len(text))
        found += [(match.start, match.end) for match in matcher]
    return sorted(set(found))


def without_overlaps(found: Sequence[tuple[str, Sequence[Span]]]) -> list[tuple[int, int, str]]:
    """Spans in the text's order; where two overlap, that of the kind named first is taken.

    Args:
        found: kind -> spans, the more certain kinds first.

    Returns:
        Start, end and kind.
    """
    taken: list[tuple[int, int, str]] = []
    for kind, spans in found:
        for start, end in spans:
            place = bisect_left(taken, (start, end, ""))
            free_from = taken[place - 1][1] if place else 0
            if free_from <= start and (place == len(taken) or end <= taken[place][0]):
                taken.insert(place, (start, end, kind))
    return taken
