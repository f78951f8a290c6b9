"""Numbers in text: found, read exactly, compared. Knows the standard library alone, so that it may run anywhere."""

from __future__ import annotations

import re
from fractions import Fraction

Number = Fraction

LONGEST_TEXT = 10_000
"""Characters of a text that are looked through for a number, from its end."""
LONGEST_NUMBER = 300
"""Characters of a number; a longer one is none."""
LARGEST_POWER_OF_TEN = 400

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?|\.\d+"
_UNSIGNED = rf"(?:{_DIGITS})"
_TEN = r"\s*(?:\\times|\\cdot|×|\*)\s*10\s*(?:\^|\*\*)\s*(?:\{\s*[-+]?\d{1,4}\s*\}|[-+]?\d{1,4})"
_SCALE = rf"(?:[eE][-+]?\d{{1,4}}(?!\w)|{_TEN})"
# a minus behind a digit, a letter or a bracket subtracts and is no sign
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>(?<![\w)\]}}])[-+])?"
    rf"(?:(?P<whole>\d+)\s+(?P<mixed_top>\d+)/(?P<mixed_bottom>\d+)(?![\d/])"
    rf"|(?P<top>{_UNSIGNED})(?P<scale>{_SCALE})?(?:\s?/\s?(?P<bottom>{_UNSIGNED})(?!\s?/)(?![\d.]*\d))?)"
    rf"(?P<percent>\s?\\?%)?"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{\s*(-?[\d.,]+)\s*\}|(\d))\s*(?:\{\s*(-?[\d.,]+)\s*\}|(\d))")
_BRACE = re.compile(r"(\\(?:boxed|fbox)\s*)?\{|\}")


def numbers_in(text: str, *, percent_as_share: bool = False) -> list[Number]:
    """Every number of a text, in order.

    Read are signs, thousands separators (``1,234,567``), decimals, powers of ten (``1.5e3``, ``1.5 \\times 10^3``),
    fractions (``3/4``, ``\\frac{3}{4}``) and mixed numbers (``1 1/2``).

    Args:
        text: any text; only its last :data:`LONGEST_TEXT` characters count.
        percent_as_share: read ``50%`` as 1/2; else the sign is passed over.

    Returns:
        The numbers, exact.
    """
    found = []
    for match in _NUMBER.finditer(_plain(text[-LONGEST_TEXT:])):
        value = _value(match)
        if value is not None:
            found.append(value / 100 if percent_as_share and match["percent"] else value)
    return found


def last_boxed(text: str) -> str | None:
    """Content of the last ``\\boxed{...}`` whose braces are closed.

    Args:
        text: an answer.

    Returns:
        The content; None without one.
    """
    text = text[-LONGEST_TEXT:]
    opened: list[int] = []
    last = (-1, 0)
    for match in _BRACE.finditer(text):
        if match[0] != "}":
            opened.append(match.end() if match[1] else -1)
        elif opened:
            last = max(last, (opened.pop(), match.start()))
    return None if last[0] < 0 else text[slice(*last)]


def equal_numbers(found: Number, known: Number, *, abs_tolerance: float, rel_tolerance: float) -> bool:
    """``|found - known| <= max(abs_tolerance, rel_tolerance |known|)``, computed exactly.

    Args:
        found: a number.
        known: the right one.
        abs_tolerance: largest difference.
        rel_tolerance: largest difference in parts of the right one.
    """
    return abs(found - known) <= max(Fraction(abs_tolerance), Fraction(rel_tolerance) * abs(known))


def _plain(text: str) -> str:
    """The text with one kind of minus, without ``$`` and LaTeX's thin spaces, and with plain fractions."""
    text = text.replace("\u2212", "-").replace("\\$", "").replace("$", "").replace("{,}", ",").replace("\\!", "")
    return _FRACTION.sub(lambda m: f" {m[1] or m[2]}/{m[3] or m[4]} ".replace("/-", "/"), text)


def _value(match: re.Match[str]) -> Number | None:
    if len(match[0]) > LONGEST_NUMBER:
        return None
    if match["whole"]:
        bottom = int(match["mixed_bottom"])
        value = None if not bottom else int(match["whole"]) + Fraction(int(match["mixed_top"]), bottom)
    else:
        value = _decimal(match["top"]) * _power(match["scale"])
        if match["bottom"]:
            divisor = _decimal(match["bottom"])
            value = value / divisor if divisor else None
    return -value if value is not None and match["sign"] == "-" else value


def _decimal(digits: str) -> Number:
    return Fraction(digits.replace(",", ""))


def _power(scale: str | None) -> Number:
    if not scale:
        return Fraction(1)
    exponent = int(re.findall(r"[-+]?\d+", scale)[-1])
    exponent = max(-LARGEST_POWER_OF_TEN, min(LARGEST_POWER_OF_TEN, exponent))
    return Fraction(10) ** exponent
