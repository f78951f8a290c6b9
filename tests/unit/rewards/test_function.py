from __future__ import annotations

import sys
import types

import pytest

from llmstack.errors import UserError
from tests.unit.rewards.batches import batch, make


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("rewards_of_a_test")

    def longer(batch, than):
        return [float(len(text) > than) for text in batch.responses]

    made.longer = longer
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made.__name__


def test_a_function_by_its_address(module):
    reward = make("function", function=f"{module}:longer", arguments={"than": 1})
    assert reward(batch(["a", "bb"])) == [0.0, 1.0]


def test_a_function_that_is_not_there(module):
    with pytest.raises(UserError, match=f"expected a function 'longest' in {module}.*Did you mean `longer`"):
        make("function", function=f"{module}:longest")
