"""A plan as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmstack.config.parallel import AXES, ParallelConfig
from llmstack.parallel.plan.layouts import describe_part, settings
from llmstack.parallel.plan.plan import Plan, StagePlan
from llmstack.parallel.support import untrained

_SHOWN = 12
"""Rows of a table of layouts."""


def as_text(plan: Plan) -> str:
    """All tables.

    Args:
        plan: the plan.
    """
    sections = [_head(plan), _networks(plan), _memory(plan), _work(plan)]
    if plan.hardware is not None:
        sections.append(_time(plan))
    sections.append(_traffic(plan))
    if plan.layouts:
        sections.append(_layouts(plan))
    notes = [f"{stage.work.name}: {note}" for stage in plan.stages for note in stage.work.notes]
    if plan.hardware is None:
        notes.append("no times and no other layouts: name the devices with --hardware, e.g. ascend_910b")
    if notes:
        sections.append("Notes\n" + "".join(f"  {note}\n" for note in notes))
    sections.append(_start(plan))
    return "\n".join(sections)


def settings_text(parallel: ParallelConfig) -> str:
    """A layout in a few words.

    Args:
        parallel: the layout.
    """
    words = []
    for key, value in settings(parallel).items():
        words.append(key if value is True else f"{key} {value}")
    return ", ".join(words) or "one device"


def size_text(num_bytes: float) -> str:
    """Bytes in GB, or MB when they are few.

    Args:
        num_bytes: how many.
    """
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"


def count_text(count: float) -> str:
    """A count with three digits.

    Args:
        count: how many.
    """
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= scale:
            return f"{count / scale:.3g}{unit}"
    return f"{count:.0f}"


def seconds_text(seconds: float) -> str:
    """A time with three digits.

    Args:
        seconds: how long.
    """
    if seconds >= 120:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _start(plan: Plan) -> str:
    where = " (the same on every host, with its own NODE_RANK)" if "NODE_RANK" in plan.command else ""
    missing = ", ".join(f"parallel.{key}" for key in untrained(plan.parallel))
    note = f"  `llmstack train` does not know {missing} yet; with a version that does:\n" if missing else ""
    return f"Start{where}\n{note}  {plan.command}\n"


def _head(plan: Plan) -> str:
    parallel, devices = plan.parallel, plan.parallel.num_devices
    room = f", {size_text(plan.hardware.usable_bytes)} of room each" if plan.hardware else ""
    kind = plan.hardware.name if plan.hardware else parallel.device
    whose = "the recipe's layout" if plan.own else "the best layout"
    return (
        f"{plan.recipe}: {devices} x {kind}{room}\n"
        f"  {whose}: {settings_text(parallel)}; {parallel.compute_dtype}, trained in {parallel.master_dtype}\n"
    )


def _networks(plan: Plan) -> str:
    rows = []
    groups = ("embedding", "attention", "feed-forward", "norms", "head", "adapters")
    for stage in plan.stages:
        for network in stage.work.networks:
            sizes = dict.fromkeys(groups, 0)
            trained = 0
            for spec in network.tensors:
                sizes[spec.group] += spec.size
                trained += spec.size if network.trained and spec.trained else 0
            cells = [count_text(size) if size else "-" for size in sizes.values()]
            learnt = "shared" if network.shared else count_text(trained) if trained else "frozen"
            rows.append([stage.work.name, network.role, count_text(sum(sizes.values())), learnt, *cells])
    return _table("Parameters", ["stage", "network", "all", "trained", *groups], rows, left=2)


def _memory(plan: Plan) -> str:
    rows = []
    for stage in plan.stages:
        cells = [size_text(size) if size else "-" for size in stage.memory.parts.values()]
        with_recompute = [size_text(total) for total in stage.recomputed.values()]
        rows.append([stage.work.name, *cells, size_text(stage.memory.total), *with_recompute])
    names = [name.replace("_", " ") for name in plan.stages[0].memory.parts]
    heads = ["stage", *names, "total", "recompute none", "selective", "full"]
    return _table("Memory of the fullest device", heads, rows)


def _work(plan: Plan) -> str:
    rows = []
    for stage in plan.stages:
        work, flops = stage.work, stage.work.flops
        per_token = [count_text(flops.total / work.tokens), count_text(flops.matmul / work.tokens)]
        kept = [size_text(stage.checkpoint), size_text(stage.final)]
        rows.append([work.name, count_text(work.tokens), str(work.updates), *per_token, *kept])
    heads = ["stage", "tokens a step", "updates", "FLOPs a token", "without attention", "checkpoint", "model"]
    return _table("Work of a step, and what is saved", heads, rows)


def _time(plan: Plan) -> str:
    rows, shown = [], _parts_with_time(plan.stages)
    for stage in plan.stages:
        if stage.time is None:
            continue
        parts = [seconds_text(stage.time.parts[name]) if stage.time.parts[name] else "-" for name in shown]
        speed = count_text(stage.work.tokens / stage.time.total)
        mfu = [f"{stage.time.mfu:.1%}", f"{stage.time.mfu_without_attention:.1%}"]
        rows.append([stage.work.name, seconds_text(stage.time.total), speed, *mfu, *parts])
    heads = ["stage", "step", "tokens/s", "MFU", "w/o attention", *map(describe_part, shown)]
    return _table("Expected time of a step", heads, rows)


def _parts_with_time(stages: Sequence[StagePlan]) -> list[str]:
    times = [stage.time for stage in stages if stage.time is not None]
    return [name for name in times[0].parts if any(time.parts[name] for time in times)] if times else []


def _traffic(plan: Plan) -> str:
    axes = [axis for axis in reversed(AXES) if getattr(plan.parallel, axis) > 1]
    if not axes:
        return "Sent by a device in a step\n  nothing: there is one device\n"
    if "data" not in axes and plan.parallel.context > 1:
        axes.append("data")
    rows = [[stage.work.name, *(size_text(stage.sent[axis]) for axis in axes)] for stage in plan.stages]
    return _table("Sent by a device in a step", ["stage", *axes], rows)


def _layouts(plan: Plan) -> str:
    rows = [
        [
            str(number),
            settings_text(layout.parallel),
            seconds_text(layout.seconds),
            size_text(layout.fullest),
            layout.reason or "best",
        ]
        for number, layout in enumerate(plan.layouts[:_SHOWN], start=1)
    ]
    heads = ["", "layout", "one step of each stage", "fullest", "why not"]
    text = _table("Layouts of as many devices", heads, rows, left=2, last_left=True)
    more = len(plan.layouts) - len(rows)
    lines = [f"  ... and {more} more (--json has them)\n"] if more > 0 else []
    for each in plan.unfit[:3]:
        mesh = ", ".join(f"{axis} {size}" for axis, size in reversed(each.axes.items()) if size > 1)
        lines.append(f"  not {mesh}: {each.reason}\n")
    if len(plan.unfit) > 3:
        lines.append(f"  ... and {len(plan.unfit) - 3} more meshes that do not divide the recipe\n")
    return text + "".join(lines)


def _table(title: str, heads: list[str], rows: list[list[str]], *, left: int = 1, last_left: bool = False) -> str:
    """A title and columns; the first ones are aligned on the left, the others on the right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]

    def lines() -> Iterator[str]:
        for row in [heads, *rows]:
            cells = []
            for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
                to_left = i < left or (last_left and i == len(row) - 1)
                cells.append(f"{cell:<{width}}" if to_left else f"{cell:>{width}}")
            yield "  " + "  ".join(cells).rstrip() + "\n"

    return f"{title}\n{''.join(lines())}"
