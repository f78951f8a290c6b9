"""Sizes of the models that the stages of a recipe name."""

from __future__ import annotations

from collections.abc import Callable

from llmstack.config.model import ModelConfig, ModelFolderConfig
from llmstack.config.recipe import RecipeConfig
from llmstack.errors import UserError
from llmstack.models.hf_config import read_config


class Models:
    """Sizes of the models that the stages of a recipe name.

    Args:
        config: the recipe.
    """

    def __init__(self, config: RecipeConfig) -> None:
        self._config = config
        self._folders: dict[str, ModelConfig] = {}

    def of_stage(self, name: str) -> Callable[[str | None], ModelConfig]:
        """Finds the sizes of what a stage names; without a name those of its own random model.

        Args:
            name: the stage.
        """
        return lambda source: self._sized(self._root(source) if source else self._own(name))

    def all(self) -> dict[str, ModelConfig]:
        """Every model that a stage starts from, by where its sizes stand."""
        found = {}
        for name, stage in self._config.stages.items():
            where = f"stages.{name}.model" if stage.model is not None else "model"
            if stage.init_from is None:
                found[where] = self._sized(self._own(name))
            elif stage.init_from not in self._config.stages:
                found[stage.init_from] = self._sized(self._root(stage.init_from))
        return found

    def _own(self, name: str) -> ModelConfig:
        stage = self._config.stages[name]
        if stage.model is not None:
            return stage.model
        model = self._config.model
        return self._folder(model.from_) if isinstance(model, ModelFolderConfig) else model

    def _root(self, source: str) -> ModelConfig:
        stages = self._config.stages
        while source in stages:
            following = stages[source].init_from
            if following is None:
                return self._own(source)
            source = following
        return self._folder(source)

    def _folder(self, folder: str) -> ModelConfig:
        if folder not in self._folders:
            self._folders[folder] = read_config(folder)
        return self._folders[folder]

    def _sized(self, model: ModelConfig) -> ModelConfig:
        """With a vocabulary: a tokenizer that is yet to be learned has the size it is given."""
        if model.vocab_size is not None:
            return model
        size = self._config.tokenizer.vocab_size
        if size is None:
            raise UserError(
                "model.vocab_size: expected a number to plan with, got null, and the tokenizer is a folder. Write the "
                "size of its vocabulary."
            )
        return model.model_copy(update={"vocab_size": size})
