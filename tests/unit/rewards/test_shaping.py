from __future__ import annotations

import numpy as np
import pytest

from llmstack.errors import UserError
from llmstack.rewards.shaping import overlong_penalty, repeated_ratio, target_penalty
from tests.reference.shaping import off_target, overlong, repeats
from tests.tolerances import F64_ATOL
from tests.unit.rewards.batches import batch, make


def test_overlong_by_hand():
    # L_max 10, L_cache 4: up to 6 nothing, 7 a quarter, 10 all, and no more beyond
    assert overlong_penalty([0, 6, 7, 8, 10, 50], max_length=10, cushion=4).tolist() == [0, 0, -0.25, -0.5, -1, -1]


def test_target_by_hand():
    # target 10 with slack 1: 9 to 11 nothing, 13 two tenths, 30 bounded
    got = target_penalty([9, 11, 13, 30, 0], target=10, slack=1)
    np.testing.assert_allclose(got, [0, 0, -0.2, -1, -0.9], rtol=0, atol=F64_ATOL)


def test_repetition_by_hand():
    # bigrams ab ba ab ba ab: two different ones in five
    assert repeated_ratio(list("ababab"), size=2) == pytest.approx(3 / 5, abs=F64_ATOL)
    assert repeated_ratio(["a"], size=2) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_against_the_oracles(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 60, 50)
    first, second = sorted(rng.integers(1, 50, 2).tolist())
    np.testing.assert_allclose(
        overlong_penalty(lengths, max_length=second, cushion=first), overlong(lengths, second, first), atol=F64_ATOL
    )
    np.testing.assert_allclose(
        target_penalty(lengths, target=second, slack=first), off_target(lengths, second, first), atol=F64_ATOL
    )
    words = rng.choice(list("abc"), 30).tolist()
    assert repeated_ratio(words, size=first % 4 + 1) == pytest.approx(repeats(words, first % 4 + 1), abs=F64_ATOL)


def test_lengths_of_answers():
    answers = batch(["one two three", "one"], num_tokens=[4, 2])
    assert make("length_shaping", mode="overlong", max_length=4, cushion=2)(answers) == [-1.0, 0.0]
    assert make("length_shaping", mode="overlong", max_length=4, cushion=2, unit="words")(answers) == [-0.5, 0.0]
    assert make("length_shaping", mode="target", target=3, unit="characters")(answers) == [-1.0, 0.0]
    with pytest.raises(UserError, match="stages.p.reward.unit: expected answers with their number of tokens"):
        make("length_shaping", mode="target", target=3)(batch(["a"]))


def test_repetition_reads_words():
    got = make("repetition", ngram=2)(batch(["Go on, go on, go on!", "Go on.", ""]))
    assert got == pytest.approx([-3 / 5, 0.0, 0.0], abs=F64_ATOL)
