from __future__ import annotations

import numpy as np

from llmstack.rl.overlong import overlong_penalty
from tests.reference import importance as oracle
from tests.tolerances import F64_ATOL


def test_by_hand():
    # a limit of 10, a buffer of 4: free up to 6, then a quarter a token
    got = overlong_penalty(np.array([1, 6, 7, 8, 10, 12]), longest=10, buffer=4)
    np.testing.assert_allclose(got, [0, 0, -0.25, -0.5, -1, -1], atol=F64_ATOL)


def test_it_matches_the_oracle():
    lengths = np.arange(1, 25)
    for longest, buffer in ((20, 1), (20, 7), (20, 20)):
        wanted = [oracle.overlong_penalty(int(length), longest, buffer) for length in lengths]
        np.testing.assert_allclose(overlong_penalty(lengths, longest=longest, buffer=buffer), wanted, atol=F64_ATOL)
