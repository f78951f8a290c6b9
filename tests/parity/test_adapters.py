"""Adapters here and in PEFT: a folder of either gives the same logits in the other."""

from __future__ import annotations

import numpy as np
import pytest

from llmstack.config.lora import LoraConfig
from llmstack.models.adapter_files import read_adapter_config
from llmstack.models.adapters import put_on_adapters, save_adapter
from llmstack.models.checkpoint_io import build_causal, load_weights, save_model
from llmstack.models.hf_config import read_config
from tests.helpers.cells import run
from tests.helpers.models import rows, tiny_config
from tests.tolerances import PARITY_LOGITS_ATOL
from tests.unit.models.test_adapters import moved

torch = pytest.importorskip("torch", reason="needs the [parity] extra")
transformers = pytest.importorskip("transformers", reason="needs the [parity] extra")
peft = pytest.importorskip("peft", reason="needs the [parity] extra")

pytestmark = pytest.mark.parity

TOKENS = rows(((9,), (9,)), 9, seed=3)
KINDS = {"lora": {}, "rslora": {"rslora": True}, "dora": {"dora": True}}


def _base(folder):
    model = build_causal(tiny_config(), seed=1)
    save_model(model, folder)
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")


def _logits(model):
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(TOKENS[0].astype(np.int64))).logits.numpy()


@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), ("*.layers.1.*",)], ids=["names", "pattern"])
@pytest.mark.parametrize("kind", KINDS)
def test_our_adapter_there(kind, targets, tmp_path):
    base = _base(tmp_path / "base")
    options = LoraConfig(rank=4, alpha=8.0, dropout=0.1, target_modules=targets, **KINDS[kind])
    ours = build_causal(tiny_config(), seed=1)
    put_on_adapters(ours, options, seed=2)
    moved(ours)
    save_adapter(ours, tmp_path / "adapter", options, base=str(tmp_path / "base"))
    theirs = peft.PeftModel.from_pretrained(base, tmp_path / "adapter")
    np.testing.assert_allclose(run(ours, *TOKENS), _logits(theirs), rtol=0, atol=PARITY_LOGITS_ATOL)


@pytest.mark.parametrize("kind", KINDS)
def test_their_adapter_here(kind, tmp_path):
    base = _base(tmp_path / "base")
    options = {f"use_{kind}": True} if kind != "lora" else {}
    theirs = peft.get_peft_model(
        base, peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM", **options)
    )
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "lora_" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    theirs.eval()
    theirs.save_pretrained(tmp_path / "adapter")
    ours = build_causal(read_config(tmp_path / "base"), seed=None)
    load_weights(ours, tmp_path / "base")
    put_on_adapters(ours, read_adapter_config(tmp_path / "adapter"), seed=0)
    np.testing.assert_allclose(run(ours, *TOKENS), _logits(theirs), rtol=0, atol=PARITY_LOGITS_ATOL)
