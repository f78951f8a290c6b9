"""A recipe with data, for the commands that look at data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.data_recipe import write_recipe


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory) -> Iterator[Path]:
    """The working directory of a module's tests, with the recipe ``small.yaml`` and its data."""
    folder = tmp_path_factory.mktemp("data")
    write_recipe(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture
def recipe(data_folder) -> str:
    """Name of the recipe's file."""
    return "small.yaml"
