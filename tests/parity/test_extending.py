"""The model family of docs/extending.md against the same one in transformers."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from llmstack.models.checkpoint_io import build_causal, save_model
from llmstack.models.hf_config import read_config
from llmstack.registry import MODELS
from tests.helpers.cells import run
from tests.helpers.examples import write_examples
from tests.helpers.models import rows, tiny_config, vary_norms
from tests.tolerances import PARITY_LOGITS_ATOL

torch = pytest.importorskip("torch", reason="needs the [parity] extra")
transformers = pytest.importorskip("transformers", reason="needs the [parity] extra")

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("window", [None, 4])
def test_fused_weights_are_theirs(window, tmp_path, monkeypatch):
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))  # other tests list the names there are
    monkeypatch.syspath_prepend(tmp_path)
    write_examples(tmp_path)
    importlib.import_module("my_families")
    sys.modules.pop("my_families")
    ours = build_causal(tiny_config(family="phi3", sliding_window=window), seed=1)
    vary_norms(ours)
    save_model(ours, tmp_path / "model", pad_id=3)
    assert read_config(tmp_path / "model") == ours.config
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", attn_implementation="eager", output_loading_info=True
    )
    assert not any(report.values()), report
    batch = rows(((9,), (9,)), 9)
    with torch.no_grad():
        expected = theirs(input_ids=torch.from_numpy(batch[0].astype(np.int64))).logits.numpy()
    np.testing.assert_allclose(run(ours, *batch), expected, rtol=0, atol=PARITY_LOGITS_ATOL)
