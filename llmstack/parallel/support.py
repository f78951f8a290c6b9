"""Which layouts training runs, as opposed to those that can be planned: an option is refused, never ignored."""

from __future__ import annotations

from llmstack.config.parallel import AXES, ParallelConfig
from llmstack.errors import ConfigError, Problem

_TRAINED = {"optimizer_sharding": "none", "recompute": "none", "compute_dtype": "float32", "master_dtype": "float32"}
"""The only value that training knows of each option."""


def untrained(parallel: ParallelConfig) -> dict[str, str]:
    """The options that training would have to ignore.

    Args:
        parallel: a layout.

    Returns:
        key -> what is expected of it and what to do; empty when training runs the layout.
    """
    problems = {}
    for axis in AXES:
        if (size := getattr(parallel, axis)) > 1:
            problems[axis] = f"expected 1, as training runs in one process, got {size}. Write `parallel=single`."
    for key, only in _TRAINED.items():
        if (value := getattr(parallel, key)) != only:
            problems[key] = f"expected {only}, the only value that training knows, got {value}. Write {only}."
    return problems


def check_trainable(parallel: ParallelConfig) -> None:
    """Refuse a layout that can be planned but not trained.

    Args:
        parallel: the recipe's layout.

    Raises:
        ConfigError: with every option that training would have to ignore.
    """
    if problems := untrained(parallel):
        raise ConfigError(
            [Problem(f"parallel.{key}", f"{text} `llmstack plan` takes it.") for key, text in problems.items()]
        )
