"""What can be wrong with the folders a recipe names, found before a run folder is made or MindSpore is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llmstack.config.load import LoadedRecipe
from llmstack.config.markers import ModelRef
from llmstack.config.mesh_checks import model_problems, nearest_divisor
from llmstack.config.model import ModelConfig, ModelFolderConfig, vocab_size_of
from llmstack.config.provenance import INHERITED
from llmstack.config.recipe import RecipeConfig
from llmstack.config.stages import StageConfig
from llmstack.config.walk import visit
from llmstack.errors import ConfigError, Problem, UserError
from llmstack.models.adapter_files import adapter_problem, target_problem
from llmstack.models.hf_config import read_config
from llmstack.models.tensor_files import stored_weights


def check_folders(loaded: LoadedRecipe) -> None:
    """Refuse a recipe whose model, tokenizer or adapter folders cannot serve it. Reads headers, not weights.

    Args:
        loaded: the recipe, checked by itself.

    Raises:
        ConfigError: with every problem at the option that names the folder.
    """
    preflight = _Preflight(loaded)
    preflight.look()
    if preflight.problems:
        raise ConfigError(preflight.problems)


class _Preflight:
    def __init__(self, loaded: LoadedRecipe) -> None:
        self.problems: list[Problem] = []
        self._config: RecipeConfig = loaded.config
        self._resolved, self._origins = loaded.resolved, loaded.origins
        self._folders: dict[str, ModelConfig | None] = {}

    def look(self) -> None:
        """Find all problems."""
        if isinstance(self._config.model, ModelFolderConfig):
            self._read(self._config.model.from_, "model.from")
        self._check_tokenizer()
        refs: dict[str, list[str]] = {name: [] for name in self._config.stages}
        for seen in visit(RecipeConfig, self._resolved):
            if isinstance(seen.value, str) and any(isinstance(mark, ModelRef) for mark in seen.marks):
                refs[seen.path.split(".")[1]].append(seen.value)
                if seen.value not in self._config.stages:
                    self._read(seen.value, seen.path)
        for folder, model in self._folders.items():
            self._check_mesh(folder, model)
        for name, stage in self._config.stages.items():
            self._check_lengths(name, stage, refs[name])
            self._check_adapters(name, stage)

    def _add(self, path: str, text: str) -> None:
        below = (place for key, place in self._origins.items() if key.startswith(f"{path}."))
        where = self._origins.get(path) or next(below, "")
        source = where.removeprefix(INHERITED)
        if where != source:  # the option that was written, not the one that took it over
            path, where = source, self._origins.get(source, "")
        self.problems.append(Problem(path, text, where))

    def _read(self, folder: str, path: str) -> None:
        """Read a model folder once; its problems are told where it was first named."""
        if folder in self._folders:
            return
        self._folders[folder] = None
        config = self._without_error(path, lambda: read_config(folder))
        if config is not None and self._without_error(path, lambda: stored_weights(Path(folder))) is not None:
            self._folders[folder] = config

    def _without_error(self, path: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except UserError as error:
            self._add(path, str(error))
            return None

    def _check_tokenizer(self) -> None:
        folder = self._config.tokenizer.path
        if self._config.tokenizer.kind == "folder" and folder and not Path(folder, "tokenizer.json").is_file():
            self._add(
                "tokenizer.path",
                f"expected a folder with tokenizer.json, got {folder!r}, one without. Save the model's tokenizer into "
                "it (`AutoTokenizer.from_pretrained`, then `save_pretrained`), or write `tokenizer:` yourself.",
            )

    def _check_mesh(self, folder: str, model: ModelConfig | None) -> None:
        """The mesh divides the models that come from folders, as the recipe's checks say of the others."""
        for path, text in model_problems(self._config.parallel, model, folder) if model is not None else ():
            if path.startswith("parallel."):
                self._add(path, text)
            else:  # a trained model keeps its vocabulary, so that it is the mesh that has to change
                tensor = self._config.parallel.tensor
                most = nearest_divisor(vocab_size_of(model), tensor)
                expected = f"a divisor of {path} ({model.vocab_size})"
                self._add("parallel.tensor", f"expected {expected}, got {tensor}. The nearest that is one is {most}.")

    def _root(self, source: str | None) -> tuple[str | None, ModelConfig | None]:
        """The folder that the sizes of a stage's model come from, None for ``model``; the sizes when they are known."""
        own = None
        while source in self._config.stages:
            stage = self._config.stages[source]
            source, own = stage.init_from, stage.model
        if source is not None:
            return source, self._folders.get(source)
        model = own or self._config.model
        return None, model if isinstance(model, ModelConfig) else self._folders.get(model.from_)

    def _check_lengths(self, name: str, stage: StageConfig, refs: list[str]) -> None:
        for folder, model in (self._root(ref) for ref in refs):
            if model is None or folder is None or stage.longest_row <= model.max_position_embeddings:
                continue
            limit = f"at most the context of {folder} ({model.max_position_embeddings} tokens)"
            self._add(
                f"stages.{name}.{next(_length_keys(stage), 'kind')}",
                f"expected rows of {limit}, got {stage.longest_row}. Shorten {_lengths(stage)}.",
            )
            return

    def _check_adapters(self, name: str, stage: StageConfig) -> None:
        if stage.lora is None:
            return
        _, model = self._root(stage.init_from)
        if model is not None:
            sized = model if model.vocab_size else model.model_copy(update={"vocab_size": 1})
            if problem := target_problem(stage.lora, sized):
                self._add(f"stages.{name}.lora.target_modules", problem)
        if problem := adapter_problem(stage.lora):
            self._add(f"stages.{name}.lora.adapter", problem)


def _length_keys(stage: StageConfig) -> Iterator[str]:
    return (key for key in ("seq_len", "response_len", "prompt_buckets") if hasattr(stage, key))


def _lengths(stage: StageConfig) -> str:
    return " or ".join(_length_keys(stage)) or "its rows"
