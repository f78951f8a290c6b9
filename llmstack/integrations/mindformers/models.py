"""Our models on MindFormers' network: what a recipe with ``provider: mindformers`` trains.

A model starts from one of our own and hands its weights back to one, so initial weights, model folders, generation and
export are the same whichever network computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from llmstack.errors import UserError
from llmstack.integrations.mindformers.network import Head, Trunk, build_gpt
from llmstack.integrations.mindformers.twin import Twin, stored_arrays
from llmstack.integrations.mindformers.weights import to_mindformers
from llmstack.models.causal_lm import CausalLM, NextTokenNetwork
from llmstack.models.scalar_model import ScalarModel, ScoringNetwork
from llmstack.models.weights import import_arrays
from llmstack.nn.heads import ScalarHead


class MindFormersCausalLM(NextTokenNetwork):
    """Next-token model on a MindFormers ``GPTModel``; has what stages use of a :class:`CausalLM`.

    Args:
        native: a model of ours whose weights it takes; kept, and brought up to date by :meth:`native`.

    Raises:
        UserError: MindFormers' network has no part for something in the model.
    """

    def __init__(self, native: CausalLM) -> None:
        super().__init__()
        self.config = native.config
        self.vocab_size = native.vocab_size
        self.hidden_size = native.hidden_size
        stored = stored_arrays(native)
        self.gpt = build_gpt(native.config, stored)
        self.trunk = Trunk(self.gpt, rotary_angles(native), native.config.sliding_window)
        self.head = Head(self.gpt)
        # trunk and head took the network's parts in and renamed them; names are those within the network after this
        self.update_parameters_name()
        import_arrays(self.gpt, to_mindformers(stored, native.config), source="MindFormers' network")
        self._twin = Twin(native, self.gpt)

    def native(self) -> CausalLM:
        """The same model on our own network, with the weights of now: always the one object."""
        return self._twin.refresh()


class MindFormersScalarModel(ScoringNetwork):
    """Reward or value model on a MindFormers ``GPTModel``; has what stages use of a :class:`ScalarModel`.

    Args:
        native: a model of ours whose weights it takes; kept, and brought up to date by :meth:`native`.

    Raises:
        UserError: MindFormers' network has no part for something in the model.
    """

    def __init__(self, native: ScalarModel) -> None:
        super().__init__()
        self.config = native.config
        self.hidden_size = native.hidden_size
        stored = stored_arrays(native)
        self.gpt = build_gpt(native.config, stored, language_head=False)
        self.trunk = Trunk(self.gpt, rotary_angles(native), native.config.sliding_window)
        self.score = ScalarHead(native.config.hidden_size)
        self.update_parameters_name()
        import_arrays(self.score, {"weight": stored.pop("score.weight")}, source="the score's head")
        import_arrays(self.gpt, to_mindformers(stored, native.config), source="MindFormers' network")
        self._twin = Twin(native, self.gpt, heads={"score.weight": self.score.weight})

    def native(self) -> ScalarModel:
        """The same model on our own network, with the weights of now: always the one object."""
        return self._twin.refresh()


def on_mindformers(model: CausalLM | ScalarModel) -> MindFormersCausalLM | MindFormersScalarModel:
    """The provider ``mindformers``: a model's weights on MindFormers' network.

    Args:
        model: a model of ours.

    Raises:
        UserError: MindFormers' network has no part for something in the model.
    """
    return MindFormersCausalLM(model) if isinstance(model, CausalLM) else MindFormersScalarModel(model)


def rotary_angles(model: Any) -> np.ndarray:
    """The angle of each position and pair of channels, from the tables our own network looks up.

    Args:
        model: a model of ours.

    Returns:
        (P, E/2) float64, from -pi to pi.

    Raises:
        UserError: its positions also scale the heads, which MindFormers' layers do not.
    """
    rotary = model.trunk.rotary
    cos, sin = (table.asnumpy().astype(np.float64) for table in (rotary.cos_table, rotary.sin_table))
    if not np.allclose(np.hypot(cos, sin), 1.0, rtol=0.0, atol=1e-5):
        raise UserError(
            "model.provider: expected rotary positions that only turn the heads, got a scaling that stretches them. "
            "Write `provider: native`."
        )
    return np.arctan2(sin, cos)
