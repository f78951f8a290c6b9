"""Random generators derived from the recipe's seed and a path of names."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def rng(seed: int, *names: str | int) -> np.random.Generator:
    """Gives the generator that belongs to a seed and a path of names.

    The same arguments give the same numbers on every machine and in every release; different paths give independent
    streams, so a part that draws more numbers never moves another's. Draw on the host with these and pass the numbers
    into the graph: a kernel's own random state cannot be put back on resume.

    Args:
        seed: the recipe's seed.
        names: who draws and what for, e.g. ``rng(seed, "policy", "rollout", iteration)``.

    Returns:
        A fresh generator at the start of its stream.
    """
    digest = hashlib.sha256(json.dumps([int(seed), *names]).encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big"))))


def derived_seed(seed: int, *names: str | int) -> int:
    """Gives the integer seed that belongs to a seed and a path of names, for what takes no generator.

    Args:
        seed: the recipe's seed.
        names: who draws and what for, e.g. ``derived_seed(seed, stage, "order")``.

    Returns:
        At least 0 and below 2^31.
    """
    return int(rng(seed, *names).integers(2**31))
