from __future__ import annotations

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmstack.data import blend
from llmstack.data.blend import BlendPlan, Part, scheduled_weights
from tests.reference import blend as oracle
from tests.tolerances import BLEND_ATOL, F64_ATOL, F64_RTOL

ANY = 10**6


def constant(*weights: float, rooms: tuple[int | None, ...] | None = None) -> list[Part]:
    rooms = rooms or (None,) * len(weights)
    return [Part(scheduled_weights("steps", [0], [w]), 10.0, room) for w, room in zip(weights, rooms, strict=True)]


def counts(plan: BlendPlan, num_rows: int, num_parts: int) -> np.ndarray:
    """Rows taken from each part at every prefix, (num_rows + 1, K)."""
    sequence = plan.sequence(0, num_rows)
    assert len(sequence) == num_rows
    assert set(sequence.tolist()) <= set(range(num_parts))
    return np.concatenate([np.zeros((1, num_parts)), np.cumsum(sequence[:, None] == np.arange(num_parts), axis=0)])


# --- weights -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ("linear", [8, 8, 6, 5, 4, 2, 0, 1, 2, 2]),
        ("steps", [8, 8, 8, 8, 8, 8, 0, 0, 2, 2]),
        # half a wave: at a quarter of the way (1 - cos 45°) / 2 = 0.146447 of the difference is done
        ("cosine", [8, 8, 8 - 8 * 0.14644661, 8 - 8 * 0.30865828, 4, 8 * 0.14644661, 0, 1, 2, 2]),
    ],
)
def test_weights_by_hand(shape: str, values: list[float]) -> None:
    at = scheduled_weights(shape, [100, 500, 700], [8, 0, 2])
    found = at(np.array([0, 100, 200, 250, 300, 400, 500, 600, 700, 9999], np.float64))
    np.testing.assert_allclose(found, values, rtol=0, atol=1e-7 if shape == "cosine" else F64_ATOL)


POINTS = st.lists(st.integers(0, 3000), min_size=1, max_size=4, unique=True).map(sorted)
WEIGHTS = st.one_of(st.sampled_from([0.0, 1.0, 1e-6]), st.floats(1e-3, 3.0))


@st.composite
def schedules(draw: st.DrawFn) -> tuple[str, list[tuple[float, float]]]:
    # positions that sums of round numbers do not hit, where a rounding would decide which side of a step a row is on
    positions = [point + 0.0567 for point in draw(POINTS)]
    return draw(st.sampled_from(["linear", "cosine", "steps"])), [(at, draw(WEIGHTS)) for at in positions]


@settings(deadline=None)
@given(schedules(), st.lists(st.floats(0, 4000), min_size=1, max_size=20))
def test_weights_are_the_oracle_s(schedule, tokens) -> None:
    shape, points = schedule
    found = scheduled_weights(shape, *zip(*points, strict=True))(np.asarray(tokens))
    wanted = [oracle.weight(shape, points, position) for position in tokens]
    np.testing.assert_allclose(found, wanted, rtol=F64_RTOL, atol=1e-9)  # positions of 1e3 over gaps of 1


# --- sequence ----------------------------------------------------------------------------------------------------


def test_three_parts_by_hand() -> None:
    # shares 1/2, 1/3, 1/6; c = 1/4. Behind row 0 they should have given (1/2, 1/3, 1/6): the first two may give it; the
    # targets reach 3/4 behind rows 1 and 2, so the first does. Row 1: (0, 2/3, 1/3) are lacking; 3/4 is reached behind
    # rows 2 and 4. Row 2: (1/2, 0, 1/2), behind 3 and 4. Row 3: (0, 1/3, 2/3), behind 5 and 4. Row 4: (1/2, 2/3, -1/6),
    # both behind 5, the earlier part. Row 5: (0, 1, 0). From there all begins again.
    plan = BlendPlan(constant(3, 2, 1))
    assert plan.sequence(0, 8).tolist() == [0, 1, 0, 2, 0, 1, 0, 1]
    np.testing.assert_allclose(plan.targets(2), [[0, 0, 0], [1 / 2, 1 / 3, 1 / 6], [1, 2 / 3, 1 / 3]], atol=F64_ATOL)


def test_annealed_weights_by_hand() -> None:
    # rows of 10 and 30 tokens; from 0.75 / 0.25 at 0 tokens to 0 / 1 at 60: row 0 takes 15 tokens, row 1 is at 15 of 60
    # with shares 9/16 and 7/16 and takes 18.75 tokens
    parts = [
        Part(scheduled_weights("linear", [0, 60], [0.75, 0.0]), 10.0),
        Part(scheduled_weights("linear", [0, 60], [0.25, 1.0]), 30.0),
    ]
    plan = BlendPlan(parts)
    assert [plan.expected_tokens(rows) for rows in range(3)] == [0, 15, 33.75]
    assert plan.shares(1).tolist() == [9 / 16, 7 / 16]
    assert plan.shares(50).tolist() == [0, 1]
    # targets of the first part 0.75, 1.3125, 1.640625 ...: rounded 1, 1, 2
    assert plan.sequence(0, 3).tolist() == [0, 1, 0]
    assert [plan.rows_for(tokens) for tokens in (0, 1, 15, 15.1, 33.75)] == [0, 1, 1, 2, 2]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_sequence_of_constant_weights_is_tijdeman_s(weights: list[int]) -> None:
    parts = [(lambda _, own=own: Fraction(own), 1, None) for own in weights]
    sums, _ = oracle.targets(parts, 60)
    assert BlendPlan(constant(*weights)).sequence(0, 30).tolist() == oracle.sequence(sums, 30)


@st.composite
def blends(draw: st.DrawFn, min_parts: int = 1) -> list[tuple[tuple, float, int | None]]:
    """Schedule, tokens per row and bound of some parts."""
    density, room = st.integers(1, 400).map(lambda eighths: eighths / 8), st.none() | st.integers(0, 40)
    return [
        (draw(schedules()), draw(density), draw(room))
        for _ in range(draw(st.integers(min_parts, 6)))
    ]  # fmt: skip


def plan_of(parts: list) -> BlendPlan:
    return BlendPlan([Part(scheduled_weights(s, *zip(*p, strict=True)), d, room) for (s, p), d, room in parts])


@settings(deadline=None, max_examples=100)
@given(blends(), st.sampled_from([50, 1 << 12]))
@example([(("steps", [(0.0, 1.0)]), 1.0, room) for room in (3, 3, 3, 40)], 50)
def test_rows_taken_stay_at_their_targets_and_below_their_bounds_at_every_prefix(parts, chunk) -> None:
    num_rows, num_parts = 160, len(parts)
    described = [(lambda t, s=s, p=p: oracle.weight(s, p, t), density, room) for (s, p), density, room in parts]
    wanted, positions = oracle.targets(described, num_rows)
    # no deadline beyond the rows looked at counts for them
    with mock.patch.object(blend, "_CHUNK", chunk), mock.patch.object(blend, "_FARTHEST", num_rows):
        plan = plan_of(parts)
        rows = plan.num_rows(num_rows)
        assert rows == len(wanted) - 1
        np.testing.assert_allclose(plan.targets(num_rows), wanted, rtol=0, atol=BLEND_ATOL)
        # each part's rows may be off by the tolerance, and count as many tokens as it has a row
        off = BLEND_ATOL * sum(density for _, density, _ in parts)
        np.testing.assert_allclose(plan.expected_tokens(rows), positions[-1], rtol=F64_RTOL, atol=off)
        taken = counts(plan, rows, num_parts)
    assert np.abs(taken - wanted).max() <= oracle.bound(num_parts) + BLEND_ATOL
    for number, (_, _, room) in enumerate(parts):
        assert room is None or taken[-1, number] <= room
    if rows < num_rows:  # at the end nobody with a weight has a row left
        assert len(plan.sequence(0, num_rows)) == rows


@settings(deadline=None, max_examples=50)
@given(blends(2), st.lists(st.integers(1, 90), max_size=6), st.integers(0, 400), st.sampled_from([5, 40]))
def test_the_sequence_does_not_depend_on_what_is_asked_for(parts, cuts, before, farthest) -> None:
    # so few rows of sight that deadlines are out of it: the sequence may then be a bad one, but always the same
    with mock.patch.object(blend, "_CHUNK", 16), mock.patch.object(blend, "_FARTHEST", farthest):
        whole = plan_of(parts).sequence(0, 300).tolist()
        plan = plan_of(parts)
        plan.num_rows(before)
        plan.rows_for(10 * before)
        pieces, start = [], 0
        for cut in [*cuts, 300]:
            pieces += plan.sequence(start, min(start + cut, 300)).tolist()
            start = min(start + cut, 300)
        assert pieces == whole
        assert plan_of(parts).sequence(100, 200).tolist() == whole[100:200]


def test_deadlines_out_of_sight_are_the_same_for_short_and_long_runs() -> None:
    with mock.patch.object(blend, "_CHUNK", 4), mock.patch.object(blend, "_FARTHEST", 4):
        short, long = BlendPlan(constant(1, 0.011, 0.012)), BlendPlan(constant(1, 0.011, 0.012))
        long.num_rows(5000)
        assert short.sequence(0, 400).tolist() == long.sequence(0, 400).tolist()


@pytest.mark.parametrize(
    "weights", [(1.0, 1e-3, 1e-3, 2e-3), (1e-9, 1.0, 1e-9), (1.0, 1e-12), (1e-300, 1e-300, 2e-300)]
)
def test_very_small_weights(weights: tuple[float, ...]) -> None:
    num_rows = 4000
    wanted = np.arange(num_rows + 1)[:, None] * np.asarray(weights) / sum(weights)
    taken = counts(BlendPlan(constant(*weights)), num_rows, len(weights))
    assert np.abs(taken - wanted).max() <= oracle.bound(len(weights)) + BLEND_ATOL


def test_a_part_without_weight_for_a_while_gives_nothing_then() -> None:
    parts = constant(1, 1)
    # ten tokens a row: no weight from row 10 to row 19
    parts.append(Part(scheduled_weights("steps", [0, 95, 195], [2, 0, 2]), 10.0))
    sequence = BlendPlan(parts).sequence(0, 40)
    given = np.flatnonzero(sequence == 2)
    assert len(given[given < 10]) == 5 and len(given[given >= 20]) == 10
    assert not ((given >= 10) & (given < 20)).any()


# --- ends --------------------------------------------------------------------------------------------------------


def test_what_a_part_cannot_give_the_others_do_by_hand() -> None:
    # shares 1/2, 1/4, 1/4; the first has one row and a half of room: none, used up in row 2; then halves
    plan = BlendPlan(constant(2, 1, 1, rooms=(1, None, None)))
    np.testing.assert_allclose(
        plan.targets(4), [[0, 0, 0], [0.5, 0.25, 0.25], [1, 0.5, 0.5], [1, 1, 1], [1, 1.5, 1.5]], atol=F64_ATOL
    )
    odd = BlendPlan(constant(2, 1, rooms=(1, None)))  # 2/3 in row 0, so 1/3 is left for row 1 and 2/3 go to the other
    np.testing.assert_allclose(odd.targets(2), [[0, 0], [2 / 3, 1 / 3], [1, 1]], atol=F64_ATOL)


def test_a_plan_ends_when_all_is_used_up() -> None:
    plan = BlendPlan(constant(1, 5, rooms=(3, 4)))
    assert plan.num_rows(ANY) == 7 == len(plan.sequence(0, ANY))
    assert np.bincount(plan.sequence(0, ANY)).tolist() == [3, 4]
    assert (plan.expected_tokens(), plan.rows_for(1e9)) == (70, 7)
    assert plan.sequence(7, 9).tolist() == [] == BlendPlan(constant(1, rooms=(0,))).sequence(0, 5).tolist()
    assert BlendPlan(constant(1, rooms=(0,))).shares(3).tolist() == [0]


def test_a_plan_ends_when_no_part_that_is_left_has_a_weight() -> None:
    plan = BlendPlan(constant(1, 0, rooms=(3, None)))
    assert plan.sequence(0, ANY).tolist() == [0, 0, 0]


@pytest.mark.parametrize("num_parts", [2, 3])
def test_every_row_of_long_bounded_parts_is_there(num_parts: int) -> None:
    # sums of hundreds of thousands of shares: their rounding must not cost the last row
    rooms = tuple(100_000 + number for number in range(num_parts))
    weights = np.random.default_rng(0).random(num_parts).tolist()
    assert BlendPlan(constant(*weights, rooms=rooms)).num_rows(ANY) == sum(rooms)


def test_weights_that_end_behind_a_used_up_part_do_not_end_the_plan_there() -> None:
    ending = scheduled_weights("steps", [0, 995], [1, 0])
    always = scheduled_weights("steps", [0], [1])
    plan = BlendPlan([Part(ending, 10.0), Part(ending, 10.0, 3), Part(always, 10.0, 1)])
    assert plan.num_rows(ANY) == 100


def test_what_is_left_of_a_row_goes_round_until_somebody_has_room() -> None:
    # all but the last are nearly used up in one row: nobody may take over more than it has
    rooms = (1, 1, 1, 1, 50)
    taken = counts(BlendPlan(constant(8, 4, 4, 4, 1, rooms=rooms)), 54, 5)
    assert taken[-1].tolist() == list(rooms)
    sums, _ = oracle.targets([(lambda _, w=w: w, 10.0, r) for w, r in zip((8, 4, 4, 4, 1), rooms, strict=True)], 54)
    np.testing.assert_allclose(BlendPlan(constant(8, 4, 4, 4, 1, rooms=rooms)).targets(54), sums, atol=BLEND_ATOL)


@pytest.mark.parametrize(("weight", "rows"), [(0.15, 10), (0.1, 55), (0.05, 50)])
def test_a_rounded_target_takes_one_row_at_a_time(weight: float, rows: int) -> None:
    # the first part's target is a rounding below a half when its share becomes 1
    first = scheduled_weights("steps", [0, rows - 0.5], [weight, 1.0])
    second = scheduled_weights("steps", [0, rows - 0.5], [1.0 - weight, 0.0])
    sequence = BlendPlan([Part(first, 1.0), Part(second, 1.0)]).sequence(0, rows + 80)
    assert set(sequence[rows + 1 :].tolist()) == {0}
    assert set(sequence.tolist()) == {0, 1}
