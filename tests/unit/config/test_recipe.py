from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.recipe import RecipeConfig


@pytest.fixture(scope="module")
def resolved():
    return load_recipe("quickstart").resolved


def test_the_order_of_stages_is_kept(resolved):
    turned = {**resolved, "stages": dict(reversed(resolved["stages"].items()))}
    assert list(RecipeConfig.model_validate(turned).stages) == ["policy", "rm", "sft", "base"]


@pytest.mark.parametrize("name", ["", "../up", "a/b", "-x", "a.b", "a b"])
def test_a_stage_name_is_a_folder_name_without_dots(resolved, name):
    with pytest.raises(ValidationError, match="stages"):
        RecipeConfig.model_validate({**resolved, "stages": {name: resolved["stages"]["base"]}})


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b"])
def test_a_recipe_name_is_a_folder_name(resolved, name):
    with pytest.raises(ValidationError, match="name"):
        RecipeConfig.model_validate({**resolved, "name": name})


def test_it_is_frozen(resolved):
    with pytest.raises(ValidationError, match="frozen"):
        RecipeConfig.model_validate(resolved).seed = 2
