from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstack.config.blend import BlendConfig
from llmstack.data.answer_rows import PreferenceRows, Spans
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.loader import EvalBatches, Loader
from llmstack.data.orders import BlendedOrder, PacedOrder
from llmstack.data.packed_rows import PackedRows
from llmstack.data.row_tables import EncodeReport
from llmstack.data.token_space import TokenSpace
from llmstack.errors import DataError
from tests.helpers.rows import documents_of, everything, numbered_rows
from tests.tolerances import F64_ATOL

REPORT = EncodeReport(records=1, kept=1)
table = numbered_rows


def prompts(lengths: list[int]) -> PromptRows:
    texts = tuple(map(str, lengths))
    tokens = np.zeros((len(lengths), 8), np.int32)
    return PromptRows(tokens, np.asarray(lengths, np.int32), REPORT, (2, 4, 8), texts, (None,) * len(texts))


def served(loader: Loader, num_batches: int) -> list[int]:
    found: list[int] = []
    for _ in range(num_batches):
        loader.next()
        found += loader.sample_ids.tolist()
    return found


def test_unshuffled_order_by_hand() -> None:
    loader = Loader(table(3), batch_rows=2, order=PacedOrder([np.arange(3)], seed=0, shuffle=False))
    assert [loader.next()["tokens"][:, 0].tolist() for _ in range(3)] == [[0, 1], [2, 0], [1, 2]]
    assert loader.sample_ids.tolist() == [1, 2]


def test_steps_per_epoch_round_up() -> None:
    loader = Loader(table(10), batch_rows=4, seed=0)
    assert (loader.steps_per_epoch(), loader.steps_per_epoch(accumulate=2), loader.num_tokens) == (3, 2, 10)


def test_seed_decides_the_order() -> None:
    first, same, other = (served(Loader(table(50), batch_rows=10, seed=seed), 5) for seed in (1, 1, 2))
    assert first == same != other


def test_what_was_served_since_the_last_drain_can_be_taken_back() -> None:
    loader = Loader(table(50), batch_rows=10, seed=1)
    again = served(Loader(table(50), batch_rows=10, seed=1), 5)
    served(loader, 1)
    loader.drain()
    state = loader.state()
    assert served(loader, 2) == again[10:30]
    loader.rewind()
    assert loader.state() == state and loader.drain().rows == {}
    assert served(loader, 3) == again[10:40]
    loader.restore(state)
    loader.next()
    loader.rewind()
    assert loader.state() == state


def test_epochs_have_different_orders() -> None:
    order = served(Loader(table(50), batch_rows=10, seed=1), 10)
    assert order[:50] != order[50:]


@settings(deadline=None)
@given(st.integers(1, 23), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_every_epoch_serves_every_row_once(num_rows: int, batch_rows: int, seed: int) -> None:
    order = served(Loader(table(num_rows), batch_rows=batch_rows, seed=seed), 3 * num_rows)
    for epoch in range(3):
        assert sorted(order[epoch * num_rows : (epoch + 1) * num_rows]) == list(range(num_rows))


@settings(deadline=None)
@given(st.integers(1, 23), st.integers(1, 7), st.integers(0, 30), st.integers(1, 30))
def test_resume_is_a_straight_run_across_epochs(num_rows: int, batch_rows: int, before: int, after: int) -> None:
    straight = served(Loader(table(num_rows), batch_rows=batch_rows, seed=3), before + after)
    first = Loader(table(num_rows), batch_rows=batch_rows, seed=3)
    start = served(first, before)
    second = Loader(table(num_rows), batch_rows=batch_rows, seed=3)
    second.restore(json.loads(json.dumps(first.state())))
    assert start + served(second, after) == straight


@settings(deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=30), st.integers(1, 4), st.integers(0, 20), st.integers(1, 20))
def test_prompt_resume_is_a_straight_run(lengths: list[int], batch_rows: int, before: int, after: int) -> None:
    straight = served(Loader(prompts(lengths), batch_rows=batch_rows, seed=3), before + after)
    first = Loader(prompts(lengths), batch_rows=batch_rows, seed=3)
    start = served(first, before)
    second = Loader(prompts(lengths), batch_rows=batch_rows, seed=3)
    second.restore(json.loads(json.dumps(first.state())))
    assert start + served(second, after) == straight


def test_prompt_batches_have_one_bucket_and_read_all_buckets_at_one_pace() -> None:
    loader = Loader(prompts([1] * 8 + [3] * 4), batch_rows=2, seed=0)
    shapes = [loader.next()["tokens"].shape for _ in range(12)]
    # 8 prompts of bucket 2 and 4 of bucket 4: twice as many batches of the first, twice through everything
    assert shapes == [(2, 2), (2, 4), (2, 2), (2, 2), (2, 4), (2, 2)] * 2
    assert loader.state()["cursors"] == [16, 8]


def blended(batch_rows: int, **options: int) -> Loader:
    """Parts of 13 rows with one token and 8 rows with three, at shares of 2/3 and 1/3."""
    parts = {name: {"data": {"source": "text", "path": "x"}, "weight": weight} for name, weight in (("a", 2), ("b", 1))}
    config = BlendConfig.model_validate({"source": "blend", "parts": parts})
    rows = PackedRows.join([table(13), table(8, first=13)])
    rows.row_tokens = np.repeat([1, 3], [13, 8])
    return Loader(rows, batch_rows=batch_rows, order=BlendedOrder(config, (13, 8), (13, 24), seed=3), **options)


def kinds_of_loaders(batch_rows: int, **options: int) -> list[Loader]:
    return [
        Loader(table(17), batch_rows=batch_rows, seed=3, **options),
        Loader(prompts([1, 5, 2, 3, 8, 8] * 9), batch_rows=batch_rows, seed=3, **options),
        blended(batch_rows, **options),
    ]


@pytest.mark.parametrize("kind", range(3), ids=["rows", "buckets", "blend"])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_ranks_share_every_batch_of_one_global_order(kind: int, world: int) -> None:
    alone = kinds_of_loaders(12)[kind]
    ranks = [kinds_of_loaders(12 // world, rank=rank, world=world)[kind] for rank in range(world)]
    for _ in range(11):  # across ends of epochs
        alone.next()
        batches = [rank.next() for rank in ranks]
        ids = [rank.sample_ids.tolist() for rank in ranks]
        assert sum(ids, []) == alone.sample_ids.tolist()
        if kind != 1:
            assert np.concatenate([batch["tokens"] for batch in batches])[:, 0].tolist() == alone.sample_ids.tolist()
    assert [rank.state() for rank in ranks] == [alone.state()] * world
    assert [rank.drain() for rank in ranks[1:]] == [ranks[0].drain()] * (world - 1)


@pytest.mark.parametrize("kind", range(3), ids=["rows", "buckets", "blend"])
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_a_run_goes_on_with_other_ranks(kind: int, steps: int) -> None:
    straight = served(kinds_of_loaders(12)[kind], steps + 6)
    first = kinds_of_loaders(4, rank=1, world=3)[kind]
    served(first, steps)
    ranks = [kinds_of_loaders(6, rank=rank, world=2)[kind] for rank in range(2)]
    for rank in ranks:
        rank.restore(json.loads(json.dumps(first.state())))
    after = []
    for _ in range(6):
        for rank in ranks:
            after += served(rank, 1)
    assert after == straight[12 * steps :]


@pytest.mark.parametrize("kind", [0, 2], ids=["rows", "blend"])
def test_a_run_goes_on_with_batches_of_another_size(kind: int) -> None:
    straight = served(kinds_of_loaders(6)[kind], 12)
    first = kinds_of_loaders(6)[kind]
    start = served(first, 3)
    second = kinds_of_loaders(9)[kind]
    second.restore(json.loads(json.dumps(first.state())))
    assert start + served(second, 6) == straight


def test_what_was_served_by_hand() -> None:
    loader = blended(3)
    loader.next()
    drawn = loader.drain()  # two rows of a with a token each, one of b with three
    assert {name: len(rows) for name, rows in drawn.rows.items()} == {"a": 2, "b": 1}
    assert drawn.metrics == {"data/a/share": 0.4, "data/b/share": 0.6}
    assert {name: value for name, value in drawn.gauges.items() if name.endswith("tokens")} == {
        "data/a/tokens": 2.0,
        "data/b/tokens": 3.0,
    }
    assert drawn.gauges["data/a/weight"] == pytest.approx(2 / 3)
    nothing = loader.drain()
    assert (nothing.rows, nothing.metrics) == ({}, {"data/a/share": 0.0, "data/b/share": 0.0})
    assert nothing.gauges == drawn.gauges
    one = Loader(table(5), batch_rows=2, seed=0)
    one.next()
    drawn = one.drain()
    assert drawn.rows == {"data": one.sample_ids.tolist()} and (drawn.metrics, drawn.gauges) == ({}, {})


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(["next", "drain", "resume"]), max_size=25))
def test_served_tokens_add_up_whenever_a_run_is_resumed(actions: list[str]) -> None:
    loader, straight, rows = blended(3), blended(3), 0
    for action in [*actions, "drain"]:
        if action == "next":
            loader.next(), straight.next()
            rows += 3
        elif action == "drain":
            drawn, whole = loader.drain(), straight.drain()
            assert drawn.gauges == whole.gauges
            counts = [drawn.gauges[f"data/{name}/tokens"] for name in "ab"]
            assert counts[0] + counts[1] / 3 == rows  # a token a row of a, three a row of b
            assert abs(counts[0] - 2 / 3 * rows) <= 0.5 + F64_ATOL
        else:
            position = json.loads(json.dumps(loader.state()))
            loader = blended(3)
            loader.restore(position)


def test_restore_refuses_other_data_and_another_seed() -> None:
    state = Loader(table(5), batch_rows=2, seed=1).state()
    with pytest.raises(DataError, match=r"expected the rows .*\(\[5\]\), got \[6\]"):
        Loader(table(6), batch_rows=2, seed=1).restore(state)
    with pytest.raises(DataError, match="expected the seed"):
        Loader(table(5), batch_rows=2, seed=2).restore(state)


def test_evaluation_serves_every_row_once_and_fills_up_with_weight_0() -> None:
    batches = EvalBatches(table(3), batch_rows=2)
    assert len(batches) == 2
    first, last = batches
    assert first["tokens"][:, 0].tolist() == [0, 1]
    assert first["weight"].tolist() == [1.0, 1.0]
    assert last["tokens"][0, 0] == 2
    assert last["weight"].tolist() == [1.0, 0.0]
    assert last["loss_mask"].tolist() == [[1.0], [0.0]]
    assert last["segments"].tolist() == [[1], [0]]
    assert everything(table(3))["segments"].all()


def test_evaluation_can_be_limited_and_repeated() -> None:
    batches = EvalBatches(table(9), batch_rows=2, limit=2)
    assert [batch["tokens"][:, 0].tolist() for batch in batches] == [[0, 1], [2, 3]]
    assert len(list(batches)) == len(batches) == 2


def test_evaluation_of_pairs_fills_both_sides() -> None:
    documents = documents_of([3, 3])
    spans = Spans(np.array([[0, 3]]), np.array([[3, 3]]), np.array([[1, 1]]))
    space, margin = TokenSpace([documents]), np.ones(1, np.float32)
    pairs = PreferenceRows(space, spans, margin, buckets=(3,), pad_id=0, report=REPORT)
    (batch,) = EvalBatches(pairs, batch_rows=2)
    assert batch["segments"][:, 0].tolist() == [1, 0, 1, 0]
    assert batch["weight"].tolist() == [1.0, 0.0]


def test_evaluation_does_not_change_the_rows() -> None:
    rows = table(3)
    list(EvalBatches(rows, batch_rows=2))
    assert everything(rows)["loss_mask"].tolist() == [[1.0]] * 3
