"""The picture of ``llmstack data stats``: lengths of documents, and the shares of a blend over the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, NullLocator

from llmstack.errors import UserError

if TYPE_CHECKING:
    from llmstack.cli.data_stats import StageStatistics

_WIDTH, _HEIGHT = 10.0, 3.4
_FEW_TICKS, _MOST_TICKS = 3, 12
_HEADROOM = 1.25
"""How far an axis goes beyond the highest value, so that the legend has room."""


def plot(stages: Mapping[str, StageStatistics], path: str) -> None:
    """Draw figures about data: a line of pictures a stage.

    Args:
        stages: the figures of each.
        path: a PNG file; replaced when it is there.

    Raises:
        UserError: it is no .png, or cannot be written.
    """
    if Path(path).suffix.lower() != ".png":
        raise UserError(f"--plot: expected a file that ends in .png, got {path!r}. Give it that ending.")
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(_WIDTH, _HEIGHT * len(stages)), dpi=130, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        grid = figure.add_gridspec(len(stages), 2)
        for line, (name, found) in enumerate(stages.items()):
            if found.blend is None:
                _draw_lengths(figure.add_subplot(grid[line, :]), name, found)
            else:
                _draw_lengths(figure.add_subplot(grid[line, 0]), name, found)
                _draw_shares(figure.add_subplot(grid[line, 1]), name, found)
        try:
            canvas.print_png(path)
        except OSError as error:
            raise UserError(
                f"--plot: expected a file that can be written, got {path} ({error.strerror}). Name another."
            ) from error


def _draw_lengths(axes: Any, stage: str, found: StageStatistics) -> None:
    shortest, longest, most = 1 << 62, 1, 0.0
    for path, part in found.parts.items():
        name = path.removeprefix(f"stages.{stage}.").removesuffix(".data").removeprefix("data.parts.")
        evaluation = name.startswith("eval_data")
        name = name.replace("eval_data.of.", "eval: ")
        for label, lengths in _curves(name, part):
            edges = [low for low, _, _ in lengths.histogram] + [lengths.histogram[-1][1] + 1]
            shares = [count / lengths.count for _, _, count in lengths.histogram]
            across, up = _outline(edges, shares)
            # evaluation data is often much like the training data: its broken line lets the other be seen
            style = ":" if evaluation else "-"
            (line,) = axes.plot(across, up, style, linewidth=1.6, label=label)
            axes.fill_between(across, up, alpha=0.08, color=line.get_color(), linewidth=0)
            shortest, longest, most = min(shortest, edges[0]), max(longest, edges[-1]), max(most, *shares)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(_ticks(shortest, longest)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100.0 * share:g} %" if share <= 1.0 else ""))
    axes.set_ylim(0.0, _HEADROOM * (most or 1.0))
    what = "answers" if any(part.pairs is not None for part in found.parts.values()) else "documents"
    axes.set(title=f"{stage}: lengths of {what}", xlabel="tokens", ylabel=f"share of the {what}")
    axes.legend(frameon=False, ncols=2, loc="upper right")


def _ticks(shortest: int, longest: int) -> list[int]:
    """Some of the bounds of the stretches that a histogram has."""
    powers = [1 << exponent for exponent in range(longest.bit_length())]
    inside = [power for power in powers if power >= shortest]
    if len(inside) <= _FEW_TICKS:
        return sorted([*powers, *(3 * power for power in powers)])
    return inside[:: 1 + len(inside) // _MOST_TICKS]


def _curves(name: str, part: Any) -> list[tuple[str, Any]]:
    if part.pairs is None:
        return [(name, part.lengths)] if part.lengths.count else []
    return [(f"{name}, chosen", part.pairs.chosen), (f"{name}, rejected", part.pairs.rejected)]


def _outline(edges: list[int], values: list[float]) -> tuple[list[float], list[float]]:
    """Corners of a histogram's upper edge, down to zero at both ends."""
    across: list[float] = [edge for edge in edges for _ in range(2)]
    up = [0.0, *(value for value in values for _ in range(2)), 0.0]
    return [max(edge, 0.5) for edge in across], up


def _draw_shares(axes: Any, stage: str, found: StageStatistics) -> None:
    tokens = [moment.tokens for moment in found.curve]
    for name in found.curve[0].shares:
        axes.plot(tokens, [moment.shares[name] for moment in found.curve], label=name, linewidth=1.8)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100.0 * share:g} %" if share <= 1.0 else ""))
    axes.yaxis.set_major_locator(FixedLocator([0.0, 0.25, 0.5, 0.75, 1.0]))
    axes.set_ylim(0.0, _HEADROOM)
    axes.set_xlim(left=0)
    axes.set(title=f"{stage}: the blend over the run", xlabel="tokens read", ylabel="share of the rows")
    axes.legend(frameon=False, ncols=4, loc="upper right")
