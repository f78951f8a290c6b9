"""The training data of a stage: its parts, and the loader that reads their rows in training order."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from llmstack.config.blend import BlendConfig
from llmstack.config.data import ConcatConfig, SourceConfig
from llmstack.config.stages import RowStageConfig, StageConfig
from llmstack.data.loader import Loader
from llmstack.data.orders import BlendedOrder, Order, PacedOrder
from llmstack.data.row_tables import Rows

_log = logging.getLogger("llmstack.data")


def parts_of(data: SourceConfig) -> dict[str, SourceConfig]:
    """The options of each part of a data option, by the name that metrics and ``rows.jsonl`` have for it.

    Args:
        data: a stage's ``data``.

    Returns:
        The parts of a blend; other data is one part.
    """
    if isinstance(data, BlendConfig):
        return {name: part.data for name, part in data.parts.items()}
    return {PacedOrder.part_names[0]: data}


def evaluation_parts_of(config: StageConfig) -> dict[str, SourceConfig]:
    """The options of each part of the evaluation data that is measured on its own, by its name in metrics.

    Args:
        config: the stage's options.

    Returns:
        The sources of a ``concat`` for a stage of packed rows; else one part without a name.
    """
    if isinstance(config, RowStageConfig) and isinstance(config.eval_data, ConcatConfig):
        return dict(config.eval_data.of)
    return {"": config.eval_data}


def part_path(path: str, data: SourceConfig, part: str) -> str:
    """Dotted path of the options of a part.

    Args:
        path: that of the data option, e.g. ``stages.base.data``.
        data: the option.
        part: name of the part.
    """
    return f"{path}.parts.{part}.data" if isinstance(data, BlendConfig) else path


def training_loader(config: StageConfig, parts: Mapping[str, Rows], *, seed: int, path: str) -> Loader:
    """The loader a stage trains from.

    Args:
        config: the stage's options.
        parts: rows of each part of its ``data``, in the order of :func:`parts_of`.
        seed: of the order, the stage's own.
        path: dotted path of ``data``, for messages.

    Returns:
        One at the beginning of the data.
    """
    tables, data = list(parts.values()), config.data
    if not isinstance(data, BlendConfig):
        # by the rows of a step, which other micro-batches of it do not change: neither then does the position
        order: Order = PacedOrder(tables[0].groups(config.step_rows or config.loader_rows), seed=seed)
        return Loader(tables[0], batch_rows=config.loader_rows, order=order)
    sizes, tokens = [len(rows) for rows in tables], [rows.num_tokens for rows in tables]
    order = BlendedOrder(data, sizes, tokens, seed=seed, path=path)
    return Loader(type(tables[0]).join(tables), batch_rows=config.loader_rows, order=order)


def rows_of_step(config: StageConfig, loader: Loader, step: int) -> list[tuple[str, int]]:
    """Which rows a training step reads, as ``rows.jsonl`` names them.

    Args:
        config: the stage's options.
        loader: its loader, still at the beginning; it is moved behind the step.
        step: number of the step, from 1.

    Returns:
        Part and number within the part of each row, in the order they are read.
    """
    order, batches = loader.order, config.step_batches
    for _ in range((step - 1) * batches):
        order.take(config.loader_rows)
    owner, local = order.locate(np.concatenate([order.take(config.loader_rows) for _ in range(batches)]))
    return [(order.part_names[part], row) for part, row in zip(owner.tolist(), local.tolist(), strict=True)]


def describe(path: str, rows: Rows) -> None:
    """Say in the log what became of a data option.

    Args:
        path: its dotted path.
        rows: its rows.
    """
    report = rows.report
    dropped = "".join(f", {count} left out ({reason}, the first is {report.examples[reason] or 'unnamed'})"
                      for reason, count in report.dropped.items())  # fmt: skip
    _log.info(
        "%s: %d of %d records, %d tokens in %d rows, %.1f %% of their places filled, %d cut%s",
        path, report.kept, report.records, rows.num_tokens, len(rows), 100.0 * (1.0 - report.padding_ratio), report.cut,
        dropped,
    )  # fmt: skip
