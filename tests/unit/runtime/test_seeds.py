"""Random streams: stable for ever, different for different names."""

from __future__ import annotations

import numpy as np

from llmstack.runtime.seeds import derived_seed, rng


def test_same_path_same_numbers():
    assert np.array_equal(rng(1, "policy", "rollout", 3).random(5), rng(1, "policy", "rollout", 3).random(5))


def test_every_part_of_the_path_counts():
    paths = [(1,), (2,), (1, "a"), (1, "a", "b"), (1, "ab"), (1, "a", 0), (1, "a", "0"), (1, "b", "a")]
    first = {rng(*path).integers(2**62) for path in paths}
    assert len(first) == len(paths)


def test_numbers_never_change_between_releases():
    # a change here makes every seeded run of every user come out differently
    assert rng(1, "data", 0).integers(0, 2**32, 3).tolist() == [3040536712, 3318444070, 3586129973]


def test_an_integer_seed_is_the_first_number_of_its_generator():
    assert derived_seed(1, "base", "order") == int(rng(1, "base", "order").integers(2**31))
    assert derived_seed(1, "base", "order") != derived_seed(1, "sft", "order")
