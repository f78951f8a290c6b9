"""The loss that the page of preference losses shows is one that a recipe can name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from llmstack.config.load import load_recipe
from llmstack.registry import PREFERENCE_LOSSES
from tests.helpers.cells import run
from tests.tolerances import F32_RTOL

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "preference.md").read_text(encoding="utf-8")


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """The module on the page, imported as a plugin is."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "shown_loss.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(PREFERENCE_LOSSES, "_entries", dict(PREFERENCE_LOSSES._entries))
    return importlib.import_module("shown_loss")


def test_the_loss_on_the_page_can_be_named_and_computes_what_it_says(shown):
    loss = load_recipe("dpo_quickstart", ["stages.policy.loss={name: square, beta: 0.5}"]).config.stages["policy"].loss
    assert isinstance(loss, shown.SquareConfig)
    cell = PREFERENCE_LOSSES.get("square")(loss)
    # leads of 0.5 (1 - (-2)) = 1.5 and 0
    total, right, _ = run(cell, [1.0, 3.0, -2.0, 3.0], np.zeros(4), np.ones(4), np.zeros(4), 0.0)
    np.testing.assert_allclose(total, 0.5**2 + 1.0, rtol=F32_RTOL)
    assert right == 1.5


def test_every_loss_has_its_row_and_its_options():
    for name in PREFERENCE_LOSSES.names():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` | "))
        options = set(PREFERENCE_LOSSES.config(name).model_fields) - {"name"}
        assert all(f"`{option}`" in row for option in options), name
        assert row.endswith("| yes |" if PREFERENCE_LOSSES.config(name).needs_reference else "| no |")
