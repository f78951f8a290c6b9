"""``llmstack data prepare``: encodes the data of a recipe before it is trained on."""

from __future__ import annotations

import argparse
import time

from llmstack.cli.recipe_data import RecipeData, write
from llmstack.data.answer_rows import AnswerRows
from llmstack.data.packed_rows import PackedRows
from llmstack.data.row_tables import Rows
from llmstack.engine.stop import terminable
from llmstack.runtime.logging import close_logging, setup_logging


def run(args: argparse.Namespace) -> int:
    """Makes the tokenizer and encodes every data option into the cache, where training finds it.

    Args:
        args: ``recipe``, ``overrides``, ``stage`` (None: all).

    Returns:
        0.

    Raises:
        UserError: the recipe or its data is wrong.
    """
    setup_logging()  # the cache says there when it waits for another process
    try:
        with terminable():
            _prepare(RecipeData(args.recipe, args.overrides, stage=args.stage))
    finally:
        close_logging()
    return 0


def _prepare(data: RecipeData) -> None:
    options = [option for stage in data.stages for option in data.options(stage)]
    width = max(len(option.path) for option in options)
    write(f"{'tokenizer':<{width}}  {data.tokenizer.vocab_size:,} ids{_place(data)}\n")
    for option in options:
        started = time.perf_counter()
        rows = data.rows(option)
        write(f"{option.path:<{width}}  {_line(rows, time.perf_counter() - started)}\n")


def _place(data: RecipeData) -> str:
    config = data.config.tokenizer
    return f" from {config.path}" if config.kind == "folder" else f" in {data.tokenizer_folder}"


def _line(rows: Rows, seconds: float) -> str:
    report = rows.report
    left_out = sum(report.dropped.values())
    parts = [
        f"{report.kept:,} documents",
        f"{rows.num_tokens:,} tokens",
        f"{len(rows):,} rows, {100.0 * (1.0 - report.padding_ratio):.1f} % filled",
        f"{left_out:,} left out",
        f"{report.cut:,} cut",
    ]
    cached, how = "nothing in the cache", "encoded, which is done at each start"
    if isinstance(rows, PackedRows | AnswerRows):
        documents = rows.documents[0]
        if documents.folder is None:
            how = "read from where it lies"
        else:
            cached = f"{_size(documents.file_bytes)} in the cache"
            how = "encoded" if documents.encoded_now else "found in the cache"
    return ", ".join([*parts, cached, f"{seconds:.1f} s", how])


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB" if num_bytes >= 10**5 else f"{num_bytes / 1e3:,.1f} kB"
