from __future__ import annotations

import json
from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstack.config.blend import BlendConfig
from llmstack.config.quantity import Quantity
from llmstack.data import blend
from llmstack.data.loader import Loader
from llmstack.data.orders import BlendedOrder, PacedOrder, Stream, check_same
from llmstack.data.packed_rows import PackedRows
from llmstack.errors import DataError
from tests.helpers.rows import numbered_rows

SOURCE = {"source": "text", "path": "x"}


def line(first: float, last: float) -> dict:
    points = [{"at": "0 tokens", "weight": first}, {"at": "60 tokens", "weight": last}]
    return {"weight": {"shape": "linear", "points": points}}


ANNEAL = {"a": line(0.9, 0.2), "b": line(0.1, 0.8), "c": {"weight": 0.5, "max_epochs": 2}}
SIZES, WIDTHS = (11, 7, 5), (1, 2, 4)


def blend_of(parts: dict) -> BlendConfig:
    return BlendConfig.model_validate(
        {"source": "blend", "parts": {name: {"data": SOURCE, **options} for name, options in parts.items()}}
    )


def order_of(parts: dict = ANNEAL, sizes=SIZES, widths=WIDTHS, **options) -> BlendedOrder:
    tokens = [size * width for size, width in zip(sizes, widths, strict=True)]
    return BlendedOrder(blend_of(parts), sizes, tokens, **{"seed": 3, **options})


def rows_of(sizes=SIZES) -> PackedRows:
    return PackedRows.join([numbered_rows(size, 1) for size in sizes])


def loader_of(batch_rows: int = 4, **options) -> Loader:
    return Loader(rows_of(), batch_rows=batch_rows, order=order_of(widths=(1, 1, 1)), **options)


def saved(position) -> dict:
    return json.loads(json.dumps(position.state()))


@pytest.fixture(autouse=True, scope="module")
def near_deadlines() -> Iterator[None]:
    """Looking a million rows ahead takes a tenth of a second, for every order of every example."""
    with mock.patch.object(blend, "_FARTHEST", 1 << 12), mock.patch.object(blend, "_CHUNK", 1 << 10):
        yield


# --- one set -----------------------------------------------------------------------------------------------------


def test_a_stream_reads_one_permutation_an_epoch() -> None:
    stream = Stream(np.array([5, 6, 7]), seed=(1,))
    order = stream.take(9)
    assert [sorted(order[at : at + 3]) for at in (0, 3, 6)] == [[5, 6, 7]] * 3
    assert (stream.cursor, len(stream), stream.take(0).tolist()) == (9, 3, [])
    wanted = [np.random.default_rng((1, epoch)).permutation([5, 6, 7]) for epoch in range(3)]
    assert order.tolist() == np.concatenate(wanted).tolist()
    assert Stream(np.array([5, 6, 7]), seed=(1,), shuffle=False).take(5).tolist() == [5, 6, 7, 5, 6]


def test_one_set_has_one_part_and_its_size_decides_the_budget() -> None:
    order = PacedOrder([np.arange(5)], seed=1)
    assert (order.part_names, order.shares(), order.rows_for(Quantity(9, "tokens"))) == (("data",), [1.0], None)
    assert order.available(99, Quantity(9, "steps"), least=4) == 99
    part, number = order.locate(np.array([3, 1]))
    assert (part.tolist(), number.tolist()) == ([0, 0], [3, 1])


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=4), st.lists(st.integers(1, 5), max_size=30), st.integers(0, 9)
)
def test_groups_are_read_at_one_pace_and_resumed_exactly(sizes, takes, at) -> None:
    starts = np.cumsum([0, *sizes])
    groups = [np.arange(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    order, straight = PacedOrder(groups, seed=2), []
    for number, count in enumerate(takes):
        if number == at:
            position, order = saved(order), PacedOrder(groups, seed=2)
            order.restore(position)
        passes = [cursor / size for cursor, size in zip(order.state()["cursors"], sizes, strict=True)]
        taken = order.take(count)
        group = int(np.argmin(passes))
        assert {int(np.searchsorted(starts, row, side="right")) - 1 for row in taken} == {group}
        straight += taken.tolist()
    whole = PacedOrder(groups, seed=2)
    assert [row for count in takes for row in whole.take(count).tolist()] == straight


# --- blends ------------------------------------------------------------------------------------------------------


def test_parts_are_taken_in_their_own_order_by_hand() -> None:
    order = order_of({"a": {"weight": 2}, "b": {"weight": 1}}, sizes=(3, 2), widths=(1, 1))
    rows = order.take(6)
    part, number = order.locate(rows)
    assert part.tolist() == [0, 1, 0, 0, 1, 0]  # targets of a: 2/3, 4/3, 2, 8/3, 10/3, 4, rounded
    assert sorted(number[part == 0][:3]) == [0, 1, 2] and sorted(number[part == 1]) == [0, 1]
    assert np.allclose(order.shares(), [2 / 3, 1 / 3])
    other = Stream(np.arange(3, 5), seed=(3, 1)).take(2)
    assert rows[part == 1].tolist() == other.tolist()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 40), st.lists(st.integers(1, 7), max_size=8))
def test_a_blend_resumes_exactly_and_the_rows_of_a_step_do_not_matter(before, counts) -> None:
    straight = order_of().take(before + sum(counts)).tolist()
    first = order_of()
    start = first.take(before).tolist()
    second = order_of()
    second.restore(saved(first))
    assert start + [row for count in counts for row in second.take(count).tolist()] == straight
    assert second.shares() == (order_of() if before + sum(counts) == 0 else _taken(before + sum(counts))).shares()


def _taken(count: int) -> BlendedOrder:
    order = order_of()
    order.take(count)
    return order


def test_the_shares_follow_the_schedule() -> None:
    order = order_of({name: part for name, part in ANNEAL.items() if name != "c"}, sizes=(11, 7), widths=(1, 1))
    order.take(1)
    assert np.allclose(order.shares(), [0.9, 0.1])
    order.take(30)  # row 30 is at 30 of 60 tokens
    assert np.allclose(order.shares(), [0.55, 0.45])
    order.take(60)
    assert np.allclose(order.shares(), [0.2, 0.8])


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"max_epochs": 0.29}, 29),  # 0.29 * 100 is 28.999999999999996
        ({"max_epochs": 1.5}, 150),
        ({"max_tokens": "970 tokens"}, 100),
        ({"max_tokens": "969 tokens"}, 99),
        ({"max_tokens": "98 tokens", "max_epochs": 1}, 10),
        ({"max_tokens": "1k tokens", "max_epochs": 0.05}, 5),
    ],
)
def test_bounds_of_a_part_in_rows(options, rows) -> None:
    order = BlendedOrder(blend_of({"a": {"weight": 1, **options}}), [100], [970], seed=1, path="stages.x.data")
    assert len(order.take(rows)) == rows
    with pytest.raises(DataError, match=rf"^stages\.x\.data\.parts: expected more rows, got {rows} .* shorten"):
        order.take(1)


def test_a_bound_below_one_row_is_refused() -> None:
    parts = {"a": {"weight": 1}, "b": {"weight": 1, "max_tokens": "9 tokens"}}
    with pytest.raises(
        DataError, match=r"^stages\.x\.data\.parts\.b: .* 10 rows \(of 10 tokens in the mean\), got none"
    ):
        BlendedOrder(blend_of(parts), [10, 10], [100, 100], seed=1, path="stages.x.data")


def test_a_budget_in_tokens_that_is_all_there_is_can_be_served() -> None:
    # a hundred times 9.7 is 969.9999999999994
    order = BlendedOrder(blend_of({"a": {"weight": 1, "max_epochs": 1}}), [100], [970], seed=1)
    loader = Loader(numbered_rows(100), batch_rows=10, order=order)
    assert loader.steps(Quantity(970, "tokens")) == 10
    assert loader.steps(Quantity(961, "tokens")) == 10
    assert loader.steps(Quantity(960, "tokens")) == 10  # 98.97 rows, rounded up to whole steps
    assert loader.steps(Quantity(10, "steps")) == 10
    assert loader.steps(Quantity(970, "tokens"), accumulate=4) == 2  # the last step would not be whole
    for budget in (Quantity(971, "tokens"), Quantity(11, "steps")):
        with pytest.raises(
            DataError, match=rf"^data\.parts: expected rows for a budget of {budget} in steps of 10, got 100 \(970 "
        ):
            loader.steps(budget)


def test_a_budget_of_less_than_a_step_is_refused_before_the_run() -> None:
    order = BlendedOrder(blend_of({"a": {"weight": 1, "max_epochs": 1}}), [5], [50], seed=1, path="stages.x.data")
    with pytest.raises(
        DataError, match=r"^stages\.x\.data\.parts: expected rows for a budget of 50 tokens in steps of 8, got 5"
    ):
        Loader(numbered_rows(5), batch_rows=8, order=order).steps(Quantity(50, "tokens"))


def test_a_budget_without_bounds_by_hand() -> None:
    loader = loader_of(batch_rows=2)
    assert loader.steps(Quantity(7, "tokens")) == 4  # a token a row: 7 rows
    assert loader.steps(Quantity(7, "tokens"), accumulate=3) == 2
    assert loader.steps(Quantity(7, "steps"), accumulate=3) == 7


# --- positions of other data -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"seed": 4}, r"expected the seed the checkpoint was written with \(3\), got 4"),
        (
            {"sizes": (11, 7, 6)},
            r"expected the rows the checkpoint was written with \(\[11, 7, 5\]\), got \[11, 7, 6\]",
        ),
        ({"parts": {"d": {"weight": 1}, "b": {"weight": 1}, "c": {"weight": 1}}}, r"expected the parts"),
        # the same parts in another order are other streams
        ({"parts": {name: ANNEAL[name] for name in "bac"}, "sizes": (7, 11, 5)}, r"expected the parts"),
    ],
)
def test_a_position_in_other_data_is_refused(other, words) -> None:
    position = saved(order_of())
    with pytest.raises(DataError, match=words):
        order_of(**other).restore(position)


def test_a_position_of_another_kind_of_order_is_refused() -> None:
    with pytest.raises(DataError):
        order_of().restore(saved(PacedOrder([np.arange(23)], seed=3)))
    with pytest.raises(DataError):
        PacedOrder([np.arange(23)], seed=3).restore(saved(order_of()))
    check_same({"seed": 1}, {"seed": 1, "more": 2})
