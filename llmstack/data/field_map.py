"""What a user's file calls our fields: names, dotted names, and templates that make one text of several fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from string import Formatter
from typing import NamedTuple

from llmstack.errors import DataError

IN_A_RECIPE = "`fields: {{{ours}: <name in the file>}}`"
"""How a recipe maps one of our names to the file's."""


class _Piece(NamedTuple):
    """Part of a template: some text, then a field of the file (None behind the last)."""

    text: str
    name: str | None


class FieldMap:
    """What a file calls our fields.

    A value is the name of one of the file's fields, or a template of them: ``{question}\\n{answer}``. A dot leads into
    an object (``message.content``), unless a field's own name has it.

    Args:
        names: our name of a field -> the file's, where they differ.
        mapping: how the user writes such an entry, for messages; ``{ours}`` stands for our name.

    Raises:
        DataError: a template that is not made of text and field names.
    """

    def __init__(self, names: Mapping[str, str] | None = None, *, mapping: str = IN_A_RECIPE) -> None:
        self.names, self.mapping = dict(names or {}), mapping
        self.templates = {
            ours: _pieces(ours, theirs) for ours, theirs in self.names.items() if "{" in theirs or "}" in theirs
        }

    def check(self, known: Collection[str], texts: Collection[str], *, used_for: str) -> None:
        """Refuse names that mean nothing.

        Args:
            known: our names.
            texts: those of them that are texts, which a template can make.
            used_for: what has these fields, for the message.

        Raises:
            DataError: another name, or a template for a field that is no text.
        """
        unknown, example = sorted(set(self.names) - set(known)), next(iter(known))
        if unknown:
            raise DataError(
                f"fields: expected names among {', '.join(known)} for {used_for}, got {', '.join(unknown)}. "
                f"Each entry maps our name to the file's, e.g. {example}: their_{example}."
            )
        for ours in self.templates:
            if ours not in texts:
                raise DataError(
                    f"fields.{ours}: expected the name of a field, got the template {self.names[ours]!r}. "
                    "A template makes text; name one field."
                )

    def columns(self, known: Collection[str]) -> set[str]:
        """The names, in the file, of all that may be read.

        Args:
            known: our names.

        Returns:
            Names as the user wrote them, each with the part in front of its first dot.
        """
        found = set()
        for ours in known:
            if ours in self.templates:
                found |= {piece.name for piece in self.templates[ours] if piece.name is not None}
            else:
                found.add(self.names.get(ours, ours))
        return found | {name.partition(".")[0] for name in found}


def _pieces(ours: str, template: str) -> tuple[_Piece, ...]:
    problem = "no field in it"
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        parsed, problem = [], str(error)
    plain = all(
        name is None or (name.strip() and not {"[", "]"} & set(name) and not spec and conversion is None)
        for _, name, spec, conversion in parsed
    )
    if not plain:
        problem = "more than a name between braces"
    if not plain or all(name is None for _, name, _, _ in parsed):
        raise DataError(
            f"fields.{ours}: expected text with names of fields between braces, such as '{{question}} {{answer}}', "
            f"got {template!r} ({problem}). Correct it; a brace that is text is written twice."
        )
    return tuple(_Piece(text, name) for text, name, _, _ in parsed)
