"""Equal layers as one graph: what keeps the time and memory of a compile from growing with depth as all else does."""

from __future__ import annotations

from typing import Any

from mindspore import nn


def share_graph(cell: nn.Cell, *facts: Any) -> None:
    """Lets the compiler take Cells of one class with equal facts for copies that differ in their Parameters alone.

    Without it every layer is parsed, inferred and differentiated anew; a 16-layer training graph with adapters took
    four times as long. Copies are still inlined in the end, so that running costs nothing.

    Everything but Parameters comes from the first copy. What differs between layers otherwise, a number or a Tensor,
    must be among the facts, or every layer would silently compute with the first one's.

    Args:
        cell: one of the copies.
        facts: all its construct depends on, as objects whose ``repr`` tells them apart.
    """
    # copies are inlined before the graph reaches the device, which a CPU needs
    cell.no_inline = False
    cell.cell_init_args = f"lazy_inline_{type(cell).__module__}.{type(cell).__qualname__}{facts!r}"
