from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor, ops

from llmstack.config.ppo import PretrainingConfig
from llmstack.models.checkpoint_io import build_causal
from llmstack.stages.objectives import LanguageObjective
from llmstack.stages.online.updates import Cut
from llmstack.stages.ppo.pretraining import TextMix, WithText
from tests.helpers import stages as tiny
from tests.tolerances import EQUIVALENCE_ATOL, F32_RTOL

COEF, COUNT = 0.7, 5.0


def mix(folder, *, rows, accumulate=1):
    path = tiny.write_jsonl(folder / "text.jsonl", [{"text": text} for text in tiny.colours(30)])
    source = {"source": "jsonl", "record": "text", "path": path}
    options = {"data": source, "coef": COEF, "seq_len": 8, "batch_rows": rows}
    config = PretrainingConfig.model_validate(options)
    return TextMix(tiny.context().corpus, config, accumulate=accumulate, seed=1)


def step(accumulate=1):
    """An update whose own inputs are a batch for a language objective: any objective can have text added."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(3, 100, (2, 8)).astype(np.int32)
    inputs = {
        "tokens": tokens,
        "positions": np.tile(np.arange(8, dtype=np.int32), (2, 1)),
        "segments": np.ones((2, 8), np.int32),
        "targets": np.arange(5, dtype=np.int32),
        "labels": tokens.reshape(-1)[1:6],
        "mask": np.full(5, 1.0 / accumulate, np.float32),
    }
    return Cut(COUNT, COUNT, [inputs] * accumulate)


@pytest.fixture(scope="module")
def graphs():
    """One model with three gradients: of the policy's objective alone, of the text alone, of both together."""
    model = build_causal(tiny.model_config(), seed=0)
    language = LanguageObjective(model, z_loss=0.0)
    return {
        name: ops.value_and_grad(cell, None, model.trainable_params(), has_aux=True)
        for name, cell in (("alone", language), ("both", WithText(language, model)))
    }


def call(graph, batch):
    (loss, *metrics), gradients = graph(Tensor(np.float32(1.0 / COUNT)), *(Tensor(array) for array in batch.values()))
    flat = np.concatenate([gradient.asnumpy().reshape(-1) for gradient in gradients])
    return float(loss.asnumpy()), [float(metric.asnumpy()) for metric in metrics], flat


def test_the_texts_mean_loss_is_added_with_its_weight(tmp_path, graphs):
    text = mix(tmp_path, rows=2)
    batch = text.add_to(step()).batches[0]
    own = {name: array for name, array in batch.items() if not name.startswith("text_")}
    of_text = {name.removeprefix("text_"): array for name, array in batch.items() if name.startswith("text_")}
    tokens = float((of_text["mask"] > 0).sum())
    assert of_text["mask"].sum() == pytest.approx(COEF * COUNT)
    loss, _, gradient = call(graphs["alone"], own)
    text_loss, _, text_gradient = call(graphs["alone"], of_text)
    both, metrics, both_gradient = call(graphs["both"], batch)
    assert both == pytest.approx(loss + text_loss, rel=F32_RTOL) and metrics[-1] == pytest.approx(text_loss)
    np.testing.assert_allclose(both_gradient, gradient + text_gradient, rtol=0, atol=EQUIVALENCE_ATOL)
    # the plain mean of the text's loss, times the weight
    plain = of_text | {"mask": (of_text["mask"] > 0) * np.float32(COUNT / tokens)}
    assert text_loss == pytest.approx(COEF * call(graphs["alone"], plain)[0], rel=F32_RTOL)


def test_micro_batches_add_up_to_the_whole(tmp_path, graphs):
    whole = call(graphs["both"], mix(tmp_path, rows=2).add_to(step()).batches[0])
    parts = [call(graphs["both"], batch) for batch in mix(tmp_path, rows=4, accumulate=2).add_to(step(2)).batches]
    longer = mix(tmp_path, rows=4).add_to(step()).batches[0]
    assert longer["text_tokens"].shape == (4, 8) and len(parts) == 2
    summed = sum(part[2] for part in parts)
    np.testing.assert_allclose(summed, call(graphs["both"], longer)[2], rtol=0, atol=EQUIVALENCE_ATOL)
    assert not np.allclose(summed, whole[2])


def test_it_goes_on_in_the_text_where_it_stopped(tmp_path):
    straight, resumed = mix(tmp_path, rows=2), mix(tmp_path, rows=2)
    for _ in range(3):
        straight.add_to(step())
    rows = straight.drain()
    assert list(rows) == ["pretraining"] and len(rows["pretraining"]) == 6
    resumed.restore(straight.state())
    for _ in range(3):
        ours, theirs = (text.add_to(step()).batches[0]["text_tokens"] for text in (straight, resumed))
        np.testing.assert_array_equal(ours, theirs)
    assert resumed.drain() == straight.drain() and straight.drain() == {}
