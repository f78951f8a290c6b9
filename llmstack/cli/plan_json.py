"""A plan as JSON."""

from __future__ import annotations

from typing import Any

from llmstack.parallel.plan.layouts import Layout
from llmstack.parallel.plan.plan import Plan, StagePlan
from llmstack.parallel.plan.work import Network


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain data: bytes, seconds and FLOPs as numbers.

    Args:
        plan: the plan.
    """
    return {
        "recipe": plan.recipe,
        "devices": plan.parallel.num_devices,
        "parallel": plan.parallel.model_dump(mode="json"),
        "own_layout": plan.own,
        "hardware": plan.hardware.model_dump(mode="json") if plan.hardware else None,
        "fits": plan.fits,
        "stages": {stage.work.name: _stage_json(stage) for stage in plan.stages},
        "layouts": [_layout_json(layout) for layout in plan.layouts],
        "unfit": [{"parallel": each.axes, "reason": each.reason} for each in plan.unfit],
        "command": plan.command,
    }


def _stage_json(stage: StagePlan) -> dict[str, Any]:
    work, flops = stage.work, stage.work.flops
    return {
        "kind": work.kind,
        "networks": [_network_json(network) for network in work.networks],
        "memory_bytes": {**stage.memory.parts, "total": stage.memory.total},
        "total_bytes_by_recompute": stage.recomputed,
        "tokens_per_step": work.tokens,
        "updates_per_step": work.updates,
        "flops_per_step": {"matmul": flops.matmul, "attention": flops.attention, "total": flops.total},
        "flops_per_token": {"with_attention": flops.total / work.tokens, "without": flops.matmul / work.tokens},
        "sent_bytes": stage.sent,
        "seconds": stage.time and {**stage.time.parts, "total": stage.time.total},
        "mfu": stage.time and stage.time.mfu,
        "mfu_without_attention": stage.time and stage.time.mfu_without_attention,
        "checkpoint_bytes": stage.checkpoint,
        "final_bytes": stage.final,
        "notes": list(work.notes),
    }


def _network_json(network: Network) -> dict[str, Any]:
    groups: dict[str, int] = {}
    trained = 0
    for spec in network.tensors:
        groups[spec.group] = groups.get(spec.group, 0) + spec.size
        trained += spec.size if network.trained and spec.trained else 0
    return {
        "role": network.role,
        "head": network.head,
        "parameters": groups,
        "total": sum(groups.values()),
        "trained": trained,
        "shared": network.shared,
    }


def _layout_json(layout: Layout) -> dict[str, Any]:
    return {
        "parallel": layout.parallel.model_dump(mode="json"),
        "fits": layout.fits,
        "seconds": layout.seconds,
        "fullest_bytes": layout.fullest,
        "reason": layout.reason,
    }
