"""Arithmetic written as text, worked out without running any of it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

LONGEST_EXPRESSION = 300
"""Characters; a longer text is no expression."""
LARGEST_BITS = 4096
"""Bits of a numerator or denominator on the way; an expression that needs more has no value."""
_POINTS = (Fraction(17, 11), Fraction(5, 7), Fraction(31, 13), Fraction(3, 19))
"""Values of the first variable; the others have neighbours of these."""

_FRACTION = re.compile(r"\\[dt]?frac\s*(\{(?:[^{}]|\{[^{}]*\})*\}|\w)\s*(\{(?:[^{}]|\{[^{}]*\})*\}|\w)")
_ROOT = re.compile(r"\\sqrt\s*(\{(?:[^{}]|\{[^{}]*\})*\}|\w)")
_PLAIN = {
    **dict.fromkeys((r"\left", r"\right", r"\,", r"\!", r"\;", r"\ ", "{,}", "$"), ""),
    **dict.fromkeys((r"\cdot", r"\times", "\u00d7"), "*"),
    **dict.fromkeys((r"\div", "\u00f7"), "/"),
    **dict.fromkeys((r"\pi", "\u03c0"), " pi "),
    **{"\u2212": "-", "\u221a": "sqrt", "^": "**", "{": "(", "}": ")"},
}
_NUMERIC = "0123456789."
_KNOWN = {"pi": Fraction(math.pi), "e": Fraction(math.e)}
_DECIMAL = r"(?:\d+(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3}(?!\w))?"
# a word is no product of its letters
_TOKEN = re.compile(rf"\s*({_DECIMAL}|(?:sqrt|pi|[A-Za-z])(?![A-Za-z])|\*\*|[-+*/()])")


def same_expression(found: str, known: str, equal: Callable[[Fraction, Fraction], bool]) -> bool | None:
    """Whether two expressions have the same value, for several values of their variables.

    Agreement at random points as a test of identity: Schwartz 1980 ("Fast Probabilistic Algorithms for Verification of
    Polynomial Identities"). The points are fixed, so that a run can be repeated. ``x = ...`` counts as what is behind
    its sign.

    Args:
        found: an answer's expression, in plain or LaTeX notation.
        known: the right one.
        equal: whether two values are the same.

    Returns:
        The verdict; None when one of the two is no expression, or has no value at any of the points.
    """
    ours, theirs = parse(found), parse(known)
    if ours is None or theirs is None:
        return None
    nodes = (*ast.walk(ours), *ast.walk(theirs))
    names = sorted({node.id for node in nodes if isinstance(node, ast.Name)} - {*_KNOWN, "sqrt"})
    verdicts = []
    for number in range(len(_POINTS) if names else 1):
        values = {name: _POINTS[(number + place) % len(_POINTS)] + place for place, name in enumerate(names)}
        left, right = value_of(ours, values), value_of(theirs, values)
        if left is None and right is None:
            continue
        verdicts.append(left is not None and right is not None and equal(left, right))
    return all(verdicts) if verdicts else None


def parse(text: str) -> ast.expr | None:
    """The tree of an expression.

    Args:
        text: in plain or LaTeX notation: numbers, single letters, ``+ - * / ^``, brackets, roots, fractions; a product
            may leave its sign out.

    Returns:
        The tree; None when the text is no such expression.
    """
    if len(text) > LONGEST_EXPRESSION:
        return None
    text = re.sub(r"^\s*\$?\s*[A-Za-z]\s*=(?!=)", "", text).strip().rstrip(".")
    for _ in range(4):  # fractions of fractions, from the inside
        text = _FRACTION.sub(r"((\1)/(\2))", _ROOT.sub(r"sqrt(\1)", text))
    for word, plain in _PLAIN.items():
        text = text.replace(word, plain)
    words: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        if words and match[1][0] in _NUMERIC and words[-1][-1] in _NUMERIC:
            return None  # "1 1/2" is no product
        words.append(match[1].replace(",", ""))
        place = match.end()
    try:
        return ast.parse(_with_products(words), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _with_products(words: list[str]) -> str:
    """The words with a ``*`` where two factors stand side by side."""
    pieces: list[str] = []
    for word in words:
        before = pieces[-1] if pieces else ""
        ends = before == ")" or before[-1:].isalnum() and before != "sqrt" or before[-1:] == "."
        begins = word == "(" or word[0].isalnum() or word[0] == "."
        pieces += ["*", word] if ends and begins else [word]
    return " ".join(re.sub(r"^0+(?=\d)", "", piece) for piece in pieces)


def value_of(node: ast.AST, values: Mapping[str, Fraction]) -> Fraction | None:
    """The value of a tree.

    Args:
        node: made by :func:`parse`.
        values: of the variables.

    Returns:
        It, exact but for roots, pi and e; None when it has none (a division by 0, a root of a negative number), needs
        too many digits, or is not made of arithmetic.
    """
    try:
        return _value(node, values)
    except (ArithmeticError, LookupError, ValueError, RecursionError):
        return None


def _value(node: ast.AST, values: Mapping[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float()):
            result = Fraction(str(node.value))
        case ast.Name(id=name):
            result = values[name] if name in values else _KNOWN[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            result = -_value(inner, values)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            result = _value(inner, values)
        case ast.Call(func=ast.Name(id="sqrt"), args=[inner], keywords=[]):
            result = _root(_value(inner, values))
        case ast.BinOp(left=left, op=operator, right=right):
            result = _binary(operator, _value(left, values), _value(right, values))
        case _:
            raise ValueError(type(node).__name__)
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > LARGEST_BITS:
        raise OverflowError
    return result


def _binary(operator: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.Pow():
            return _power(left, right)
        case _:
            raise ValueError(type(operator).__name__)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        result = float(base) ** float(exponent)
        if isinstance(result, complex):
            raise ValueError("no real power")
        return Fraction(result)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * bits > LARGEST_BITS:
        raise OverflowError
    return base ** int(exponent)


def _root(value: Fraction) -> Fraction:
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)  # a negative number has none: ValueError
    if (top * top, bottom * bottom) == (value.numerator, value.denominator):
        return Fraction(top, bottom)
    return Fraction(math.sqrt(value))
