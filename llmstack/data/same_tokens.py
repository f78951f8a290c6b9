"""Whether two tokenizers give the same text the same ids."""

from __future__ import annotations

from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError


def require_same_tokens(ours: Tokenizer, theirs: Tokenizer, *, where: str, whose: str) -> None:
    """Refuse a model that would read our ids as other tokens.

    Args:
        ours: the tokenizer whose ids are used.
        theirs: the tokenizer the model was trained with.
        where: the option that names the model, for messages.
        whose: the model, e.g. ``the reward model models/rm``.

    Raises:
        UserError: an id means another token; the message names the first.
    """
    left, right = ours.tokens_by_id, theirs.tokens_by_id
    differ = [index for index in sorted(left.keys() | right.keys()) if left.get(index) != right.get(index)]
    if differ:
        first = differ[0]
        raise UserError(
            f"{where}: expected {whose} to have the recipe's tokenizer, got another: {len(differ)} ids differ, first "
            f"{first}, {left.get(first)!r} here and {right.get(first)!r} there. Train both with one tokenizer."
        )
