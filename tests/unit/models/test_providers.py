from __future__ import annotations

import pytest

from llmstack.errors import UserError
from llmstack.models.checkpoint_io import build_causal, build_scalar
from llmstack.models.providers import as_it_is, provided
from llmstack.registry import PROVIDERS
from tests.helpers.models import tiny_config


@pytest.mark.parametrize("build", [build_causal, build_scalar])
def test_a_native_model_is_itself(build):
    model = build(tiny_config(num_hidden_layers=1), seed=0)
    assert provided(model, "native") is as_it_is(model) is model.native() is model


def test_a_plugin_can_stand_in_for_a_model(monkeypatch):
    monkeypatch.setattr(PROVIDERS, "_entries", dict(PROVIDERS._entries))  # other tests list the names there are
    PROVIDERS.register("upside_down", summary="for this test")(lambda model: ("stands in for", model))
    model = build_causal(tiny_config(num_hidden_layers=1), seed=0)
    assert provided(model, "upside_down") == ("stands in for", model)
    assert tiny_config(provider="upside_down").provider == "upside_down"


def test_an_unknown_provider_is_refused():
    with pytest.raises(UserError, match=r"expected a model provider \(mindformers, native.*got 'torch'"):
        provided(build_causal(tiny_config(num_hidden_layers=1), seed=0), "torch")
