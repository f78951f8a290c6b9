"""``llmstack data stats``: figures about the data of a recipe, as its stages read it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from llmstack.cli.recipe_data import RecipeData, write
from llmstack.data.orders import BlendedOrder
from llmstack.data.statistics import (
    BlendStatistics,
    Lengths,
    Moment,
    Pairs,
    RowStatistics,
    blend_statistics,
    moments_of,
    row_statistics,
)

_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_CURVE_POINTS = 200


@dataclass(frozen=True)
class StageStatistics:
    """Figures about the data of a stage.

    Attributes:
        parts: dotted path of a data option -> its figures; training data first.
        steps: steps of the stage's budget.
        step_rows: rows a step reads.
        blend: the plan of a blend over the budget; None for other data.
        curve: the blend at many moments, for a picture; empty for other data.
    """

    parts: dict[str, RowStatistics]
    steps: int
    step_rows: int
    blend: BlendStatistics | None
    curve: tuple[Moment, ...]


def run(args: argparse.Namespace) -> int:
    """Prints the figures as text or JSON, and draws them when asked to.

    Args:
        args: ``recipe``, ``overrides``, ``stage`` (None: all), ``json``, ``plot`` (a path or None).

    Returns:
        0.

    Raises:
        UserError: the recipe or its data is wrong, or the picture cannot be written.
    """
    data = RecipeData(args.recipe, args.overrides, stage=args.stage)
    found = {stage: stage_statistics(data, stage) for stage in data.stages}
    if args.json:
        write(json.dumps({stage: _as_json(figures) for stage, figures in found.items()}, indent=2) + "\n")
    else:
        write("\n".join(line for stage, figures in found.items() for line in _text(stage, figures)) + "\n")
    if args.plot is not None:
        from llmstack.cli.data_plot import plot  # matplotlib takes a second to import

        plot(found, args.plot)
    return 0


def stage_statistics(data: RecipeData, stage: str) -> StageStatistics:
    """Figures about the data of a stage.

    Args:
        data: the recipe's data.
        stage: the stage's name.
    """
    config, parts, figures = data.stages[stage], {}, {}
    for option in data.options(stage):
        rows = data.rows(option)
        figures[option.path] = row_statistics(rows)
        if not option.evaluation:
            parts[option.part] = rows
    loader = data.loader(stage, parts)
    steps, step_rows = loader.steps(config.budget, config.step_batches), config.batch_rows * config.step_batches
    if not isinstance(loader.order, BlendedOrder):
        return StageStatistics(figures, steps, step_rows, None, ())
    names, plan, num_rows = loader.order.part_names, loader.order.plan, steps * step_rows
    sizes, tokens = [len(parts[name]) for name in names], [parts[name].num_tokens for name in names]
    blend = blend_statistics(plan, names, sizes, tokens, num_rows)
    ratios = [point / _CURVE_POINTS for point in range(_CURVE_POINTS + 1)]
    per_row = [count / size for count, size in zip(tokens, sizes, strict=True)]
    return StageStatistics(figures, steps, step_rows, blend, moments_of(plan, names, per_row, num_rows, ratios))


def _as_json(figures: StageStatistics) -> dict[str, object]:
    values = asdict(figures)
    del values["curve"]
    return values


def _text(stage: str, figures: StageStatistics) -> Iterator[str]:
    for path, part in figures.parts.items():
        yield path
        yield from _part_lines(part)
        yield ""
    if figures.blend is not None:
        yield from _blend_lines(stage, figures.steps, figures.step_rows, figures.blend)
        yield ""


def _part_lines(part: RowStatistics) -> Iterator[str]:
    yield _line("records", f"{part.kept:,} of {part.records:,} kept")
    for reason, gone in part.left_out.items():
        share = gone.count / part.records
        yield _line("left out", f"{gone.count:,} ({_percent(share)}): {reason}, the first is {gone.first or 'unnamed'}")
    yield _line(
        "rows", f"{part.rows:,} with {part.tokens:,} tokens, {_percent(part.filled_ratio)} of their places filled"
    )
    if part.trained_ratio is not None:
        yield _line("trained", f"{_percent(part.trained_ratio)} of the tokens")
    yield _line("cut", f"{part.cut:,} of {part.kept:,} ({_percent(part.cut_ratio)})")
    if part.pairs is not None:
        yield from _pair_lines(part.pairs)
    yield _line("lengths", f"{_quantiles(part.lengths)} tokens")
    yield from histogram(part.lengths)


def _pair_lines(pairs: Pairs) -> Iterator[str]:
    yield _line("chosen", f"{_quantiles(pairs.chosen)} tokens")
    yield _line("rejected", f"{_quantiles(pairs.rejected)} tokens")
    yield _line(
        "longer", f"the chosen one in {_percent(pairs.chosen_longer_ratio)}, neither in {_percent(pairs.equal_ratio)}"
    )


def _quantiles(lengths: Lengths) -> str:
    return (
        f"min {lengths.min:,}, median {lengths.median:,}, 90 % {lengths.p90:,}, 99 % {lengths.p99:,}, "
        f"max {lengths.max:,}"
    )


def _percent(ratio: float) -> str:
    return f"{100.0 * ratio:.1f} %"


def _line(what: str, text: str) -> str:
    return f"  {what:<10}{text}"


def histogram(lengths: Lengths) -> Iterator[str]:
    """Bars of block characters, one a stretch of lengths.

    Args:
        lengths: what to draw.
    """
    labels = [f"{low:,}-{high:,}" if low < high else f"{low:,}" for low, high, _ in lengths.histogram]
    width = max(map(len, labels), default=0)
    most = max((count for *_, count in lengths.histogram), default=1)
    for label, (*_, count) in zip(labels, lengths.histogram, strict=True):
        # something is drawn for the least of counts, so that it is told from none
        eighths = -(-count * _BAR * 8 // most)
        bar = _EIGHTHS[-1] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        yield f"    {label:>{width}}  {bar} {count:,}" if count else f"    {label:>{width}}  0"


def _blend_lines(stage: str, steps: int, step_rows: int, blend: BlendStatistics) -> Iterator[str]:
    names = list(blend.epochs)
    yield f"stages.{stage}.data: {steps:,} steps of {step_rows:,} rows"
    yield _line("", "planned share of the rows, and tokens read so far")
    table = [["budget", *names, "all"]]
    table += [_moment_cells(moment) for moment in blend.moments]
    table.append(["epochs", *(f"{blend.epochs[name]:.2f}" for name in names), ""])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        first, *rest = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        yield f"    {first}  {'  '.join(rest)}".rstrip()


def _moment_cells(moment: Moment) -> list[str]:
    parts: Mapping[str, int] = moment.part_tokens
    width = max(len(f"{count:,}") for count in parts.values())
    cells = [f"{_percent(share)} {parts[name]:>{width},}" for name, share in moment.shares.items()]
    return [f"{100.0 * moment.budget_ratio:.0f} %", *cells, f"{moment.tokens:,}"]
