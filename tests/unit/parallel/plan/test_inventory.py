"""The inventory against the Parameters of real models, and against published counts."""

from __future__ import annotations

import pytest

from llmstack.config.lora import LoraConfig
from llmstack.models.actor_critic import ActorCritic
from llmstack.models.adapters import put_on_adapters
from llmstack.models.checkpoint_io import build_causal, build_scalar
from llmstack.parallel.plan.inventory import alike, tensors_of
from tests.helpers.models import FAMILY_CHANGES, tiny_config
from tests.helpers.plans import PUBLISHED, model_of, published, small
from tests.reference.planning import llama_parameters

LORAS = {
    "whole": None,
    "two": LoraConfig(rank=3, alpha=1.0, dropout=0.0, target_modules=("q_proj", "v_proj")),
    "dora": LoraConfig(rank=2, alpha=1.0, dropout=0.0, target_modules=("all-linear",), dora=True),
    "first": LoraConfig(rank=2, alpha=1.0, dropout=0.0, target_modules=("*.layers.0.mlp.*",)),
}


def real(config, head, lora):
    """The Parameters of a model as it is trained: name -> (shape, trained)."""
    model = build_scalar(config, seed=None) if head == "scalar" else build_causal(config, seed=None)
    if lora is not None:
        put_on_adapters(model, lora, seed=0)
    model = ActorCritic(model) if head == "both" else model
    return {p.name: (tuple(p.shape), p.requires_grad) for p in model.get_parameters()}


def planned(config, head, lora):
    return {spec.name: (spec.shape, spec.trained) for spec in tensors_of(config, head, lora)}


@pytest.mark.parametrize("head", ["language", "scalar", "both"])
@pytest.mark.parametrize("lora", LORAS)
@pytest.mark.parametrize("tied", [False, True])
def test_every_parameter_of_a_real_model_is_there(head, lora, tied):
    config = tiny_config(tie_word_embeddings=tied)
    assert planned(config, head, LORAS[lora]) == real(config, head, LORAS[lora])


@pytest.mark.parametrize("family", FAMILY_CHANGES)
def test_families_differ_as_their_models_do(family):
    config = tiny_config(**FAMILY_CHANGES[family])
    assert planned(config, "language", None) == real(config, "language", None)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_their_published_sizes(name):
    sizes, tied, bias, count = PUBLISHED[name]
    assert sum(spec.size for spec in tensors_of(published(name), "language")) == count
    assert llama_parameters(sizes, tied=tied, bias=bias) == count


@pytest.mark.parametrize("lora", LORAS)
def test_counting_layers_together_changes_no_sum(lora):
    config = model_of((16, 5, 8, 4, 4, 32, 64))
    one_by_one, together = tensors_of(config, "both", LORAS[lora]), alike(config, "both", LORAS[lora])
    assert len(together) < len(one_by_one)
    for key in ("group", "place", "trained", "cut"):
        for value in {getattr(spec, key) for spec in one_by_one}:
            sums = [sum(s.size for s in specs if getattr(s, key) == value) for specs in (one_by_one, together)]
            assert sums[0] == sums[1]


def test_a_cut_dimension_is_one_that_tensor_ranks_can_share():
    for spec in tensors_of(small(attention_bias=True, attention_out_bias=True), "language", LORAS["dora"]):
        if spec.cut is not None:
            assert spec.shape[spec.cut] % 4 == 0
    cuts = {spec.name: spec.cut for spec in tensors_of(small(), "language", LORAS["dora"])}
    block = "trunk.blocks.0."
    assert cuts[f"{block}attention.qkv.updates.0.a"] is None and cuts[f"{block}attention.qkv.updates.0.b"] == 0
    assert cuts[f"{block}mlp.down.updates.0.a"] == 1 and cuts[f"{block}mlp.down.updates.0.b"] is None
    assert cuts[f"{block}attention.out.weight"] == 1 and cuts["trunk.norm.weight"] is None
