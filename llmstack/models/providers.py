"""Whose network computes for a model.

A model is always made, loaded and saved as one of ours. A provider puts its weights on another network that offers what
stages use of a :class:`~llmstack.models.causal_lm.CausalLM` or :class:`~llmstack.models.scalar_model.ScalarModel`:
``config``, ``hidden_size``, ``trunk``, ``head`` or a call, its parameters, and ``native()``, which gives the model of
ours with the weights of now.
"""

from __future__ import annotations

from typing import TypeVar

from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from llmstack.registry import PROVIDERS

M = TypeVar("M", CausalLM, ScalarModel)


def provided(model: M, provider: str) -> M:
    """A model as a provider computes it.

    Args:
        model: a model of ours.
        provider: name in the provider registry.

    Returns:
        The model itself for ``native``, else one that stands in for it.

    Raises:
        UserError: no such provider, or it cannot compute this model.
    """
    stand_in: M = PROVIDERS.get(provider)(model)
    return stand_in


def as_it_is(model: M) -> M:
    """The provider ``native``: our own network.

    Args:
        model: a model of ours.

    Returns:
        The model.
    """
    return model
