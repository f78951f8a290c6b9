"""``llmstack data show``: rows of a stage as the model sees them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from llmstack.cli.recipe_data import RecipeData, write
from llmstack.cli.row_text import Marker, printable, segment_text, token_table
from llmstack.data.bucket_rows import PreferenceRows, PromptRows
from llmstack.data.row_tables import Rows
from llmstack.data.row_view import Segment, segments_of
from llmstack.data.stage_data import rows_of_step
from llmstack.errors import UserError

_ROWS = 2


def run(args: argparse.Namespace) -> int:
    """Prints rows.

    Args:
        args: ``recipe``, ``overrides``, ``stage``, ``eval``, ``tokens``, and one of ``rows``, ``row`` and ``step``.

    Returns:
        0.

    Raises:
        UserError: the recipe or its data is wrong, or there is no such row or step.
    """
    if args.eval and args.step is not None:
        raise UserError("--step: expected it without --eval, got both: steps read the training data. Drop one.")
    data = RecipeData(args.recipe, args.overrides, stage=args.stage)
    options = {option.part: option for option in data.options(args.stage) if option.evaluation == args.eval}
    parts = {part: data.rows(option) for part, option in options.items()}
    mark = Marker(colours=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    for part, row in _chosen(args, data, parts):
        segments = segments_of(parts[part], row)
        name = f"{part}:{row}" if part else str(row)
        write(_heading(name, options[part].path, parts[part], row, segments))
        if args.tokens:
            write("\n".join(token_table(segments, data.tokenizer)) + "\n\n")
        else:
            for segment in segments:
                text = segment_text(segment, data.tokenizer, mark)
                write(f"--- {_title(segment)}\n{text}\n")
            write("\n")
    return 0


def _chosen(args: argparse.Namespace, data: RecipeData, parts: Mapping[str, Rows]) -> Iterator[tuple[str, int]]:
    """Part and number of the rows asked for."""
    if args.step is not None:
        config, loader = data.stages[args.stage], data.loader(args.stage, dict(parts))
        if not config.steps_are_alike:
            raise UserError(
                f"--step: expected a stage whose steps all read as many rows, got stages.{args.stage}, whose answers "
                "decide how many prompts are asked (dynamic_sampling). Read rows.jsonl in its run folder."
            )
        steps = loader.steps(config.budget, config.step_batches)
        if args.step > steps:
            raise UserError(
                f"--step: expected a step of 1 to {steps} (the budget of stages.{args.stage}), got {args.step}. "
                "Name one of them."
            )
        yield from rows_of_step(config, loader, args.step)
    elif args.row is not None:
        yield _named_row(args.row, parts)
    else:
        for part, rows in parts.items():
            yield from ((part, row) for row in range(min(args.rows or _ROWS, len(rows))))


def _named_row(text: str, parts: Mapping[str, Rows]) -> tuple[str, int]:
    """``PART:I``, or ``I`` where there is one part."""
    part, colon, number = text.rpartition(":")
    names = ", ".join(name for name in parts if name)
    if not colon:
        if len(parts) > 1:
            raise UserError(f"--row: expected PART:I, PART one of {names}, got {text!r}. Name the part.")
        part = next(iter(parts))
    if part not in parts:
        expected = f"one of {names} before the colon" if names else "a number alone, as evaluation data has no parts"
        raise UserError(f"--row: expected {expected}, got {text!r}. Correct it.")
    row = int(number) if number.isascii() and number.isdigit() else -1
    if not 0 <= row < len(parts[part]):
        where = f" of {part}" if len(parts) > 1 else ""
        raise UserError(f"--row: expected a row{where} from 0 to {len(parts[part]) - 1}, got {number!r}. Correct it.")
    return part, row


def _heading(name: str, path: str, rows: Rows, row: int, segments: Sequence[Segment]) -> str:
    tokens, width = sum(len(segment.tokens) for segment in segments), segments[0].width
    where = f"2 rows of {width} places" if isinstance(rows, PreferenceRows) else f"{width} places"
    text = f"=== row {name} of {path}: {tokens} tokens in {where}\n"
    if isinstance(rows, PromptRows) and rows.answers[row] is not None:
        text += f"--- known answer\n{printable(rows.answers[row] or '')}\n"
    return text


def _title(segment: Segment) -> str:
    origin = segment.origin
    skipped = f" from its token {origin.skipped} on" if origin.skipped else ""
    return f"{segment.name}: {len(segment.tokens)} tokens of {origin.where or 'an unnamed record'}{skipped}"
