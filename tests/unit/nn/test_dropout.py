from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore import dtype as mstype

from llmstack.nn import composed
from llmstack.nn.dropout import DropoutSeeds, SeededDropout
from llmstack.nn.native import ops as native
from llmstack.nn.native.build import library
from tests.helpers.cells import differentiate, run
from tests.tolerances import F32_RTOL, STANDARD_ERRORS

RATE, SHAPE = 0.3, (64, 50)


def murmur3_finaliser(bits):
    """Appleby 2011: ``h ^= h >> 16; h *= 85ebca6b; h ^= h >> 13; h *= c2b2ae35; h ^= h >> 16`` on 32 bits."""
    bits = bits.astype(np.uint32)
    bits ^= bits >> np.uint32(16)
    bits *= np.uint32(0x85EBCA6B)
    bits ^= bits >> np.uint32(13)
    bits *= np.uint32(0xC2B2AE35)
    return bits ^ (bits >> np.uint32(16))


@pytest.fixture(scope="module", params=["native", "composed"])
def dropped(request):
    """What is left of ones by seed; all from one graph."""
    if request.param == "native" and library() is None:
        pytest.skip("no C++ compiler on this machine")
    cell = SeededDropout(RATE)
    cell.kernel = native.NativeDropout(RATE) if request.param == "native" else composed.ComposedDropout(RATE)
    found = {}
    for number in (0, 1, 2, 1_000_000_007, 1):
        cell.seed.set_data(Tensor(number, mstype.int32))
        found.setdefault(number, []).append(run(cell, np.ones(SHAPE)))
    return found


def test_seed_0_is_off(dropped):
    np.testing.assert_array_equal(dropped[0][0], 1.0)


def test_what_is_kept_follows_from_place_and_seed(dropped):
    place = murmur3_finaliser(np.arange(np.prod(SHAPE)))
    for number in (1, 2, 1_000_000_007):
        own = murmur3_finaliser(np.array([number]))
        bits = murmur3_finaliser(place ^ own) & np.uint32(0x7FFFFFFF)
        kept = (bits >= round(RATE * 2**31)).reshape(SHAPE)
        np.testing.assert_array_equal(dropped[number][0] > 0, kept)


def test_the_same_seed_drops_the_same(dropped):
    first, again = dropped[1]
    np.testing.assert_array_equal(first, again)


def test_share_scale_and_independence(dropped):
    error = STANDARD_ERRORS * np.sqrt(RATE * (1 - RATE) / np.prod(SHAPE))
    one, other = dropped[1][0], dropped[2][0]
    for values in (one, other):
        assert set(np.unique(values)) == {np.float32(0), np.float32(1 / (1 - RATE))}
        assert abs((values == 0).mean() - RATE) < error
    both = ((one == 0) & (other == 0)).mean()
    assert abs(both - RATE**2) < STANDARD_ERRORS * np.sqrt(RATE**2 / np.prod(SHAPE))


def test_each_dropout_of_a_model_has_noise_of_its_own():
    cells = nn.CellList([SeededDropout(RATE), SeededDropout(RATE)])
    seeds = DropoutSeeds(cells)

    def drawn(*noise):
        seeds.draw(*noise)
        return [int(cell.seed.asnumpy()) for cell in cells]

    first = drawn(5, 1)
    assert first[0] != first[1] and 0 not in first
    assert drawn(5, 2) != first and drawn(6, 1) != first and drawn(5, 1) == first
    seeds.off()
    assert [int(cell.seed.asnumpy()) for cell in cells] == [0, 0]


@pytest.mark.parametrize("kind", ["native", "composed"])
def test_gradients_pass_where_numbers_were_kept(kind):
    if kind == "native" and library() is None:
        pytest.skip("no C++ compiler on this machine")
    cell = native.NativeDropout(RATE) if kind == "native" else composed.ComposedDropout(RATE)
    x, upstream = np.random.default_rng(0).normal(size=(2, *SHAPE)).astype(np.float32)
    (out,), (dx,), _ = differentiate(cell, (x, np.int32(77)), (upstream,))
    np.testing.assert_allclose(dx, np.where(out == 0, 0, upstream / (1 - RATE)), rtol=F32_RTOL)
