"""Runs a recipe's stages in order, hands each the models it names, keeps what is finished and still fits."""

from __future__ import annotations

import gc
import inspect
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmstack.config.data import SourceConfig
from llmstack.config.load import LoadedRecipe
from llmstack.config.markers import CodeRef, ModelRef
from llmstack.config.model import ModelConfig, ModelFolderConfig
from llmstack.config.recipe import RecipeConfig
from llmstack.config.stages import StageConfig
from llmstack.config.walk import visit
from llmstack.data.recipe_tokenizer import build_tokenizer
from llmstack.data.tokenizer import Tokenizer
from llmstack.engine.fingerprint import StageIdentity, code_version, hash_files
from llmstack.engine.run_folder import RunFolder
from llmstack.engine.stage_folder import StageFolder
from llmstack.errors import UserError
from llmstack.models.hf_config import read_config
from llmstack.parallel.plan.utilisation import utilisation_of
from llmstack.parallel.support import check_trainable
from llmstack.plugins import load_function
from llmstack.registry import (
    ADVANTAGES,
    AGGREGATIONS,
    MODELS,
    OPTIMIZERS,
    PREFERENCE_LOSSES,
    REWARDS,
    SCHEDULES,
    SOURCES,
    STAGES,
)
from llmstack.runtime import device
from llmstack.runtime.logging import get_logger, setup_logging
from llmstack.stages.preflight import check_folders

_log = get_logger("chain")


def run_recipe(loaded: LoadedRecipe, *, until: str | None = None, fresh: bool = False) -> dict[str, Any]:
    """Run a recipe, or go on with it where it stopped.

    Args:
        loaded: the checked recipe.
        until: stop after this stage.
        fresh: move all earlier results aside first.

    Returns:
        What ``summary.json`` holds.

    Raises:
        UserError: the input is wrong, or ``until`` is no stage of the recipe.
        Interrupted: a signal came; the state is saved.
        RunHalted: a stage stopped itself.
    """
    config = loaded.config
    if until is not None and until not in config.stages:
        raise UserError(
            f"--stage: expected one of {', '.join(config.stages)}, got {until!r}. Name a stage of the recipe."
        )
    check_folders(loaded)
    check_trainable(config.parallel)
    with RunFolder(Path(config.run_dir), recipe=config.name, resolved=loaded.resolved) as run:
        setup_logging(run.path / "run.log", level=logging.INFO)
        # set before anything imports MindSpore or OpenMP
        device.quiet_environment(run.path / "dumps")
        tokenizer = build_tokenizer(config.tokenizer, seed=config.seed, cache_dir=run.path / "tokenizer")
        chain = Chain(loaded, run, tokenizer)
        for name in config.stages:
            chain.run_stage(name, fresh=fresh)
            if name == until:
                break
    return run.summary()


class Chain:
    """The stages of one recipe in one run folder.

    Args:
        loaded: the recipe.
        run: its entered run folder.
        tokenizer: the recipe's tokenizer.
    """

    def __init__(self, loaded: LoadedRecipe, run: RunFolder, tokenizer: Tokenizer) -> None:
        self._config: RecipeConfig = loaded.config
        self._resolved, self._run, self._tokenizer = loaded.resolved, run, tokenizer
        self._fingerprints: dict[str, str] = {}
        self._model = sized_model(model_config(loaded.config), tokenizer)

    def run_stage(self, name: str, *, fresh: bool) -> None:
        """Run one stage unless its finished result still fits.

        Args:
            name: the stage.
            fresh: move a fitting result aside too.
        """
        config = self._config.stages[name]
        identity = self._identity(name, config)
        self._fingerprints[name] = identity.fingerprint()
        folder = self._run.open_stage(name, kind=config.kind, identity=identity, fresh=fresh)
        if folder.finished:
            _log.info("%s is done already", name)
            return
        self._fit(name, config, folder)
        # compiled graphs and their buffers go before the next stage makes its own
        gc.collect()

    def _fit(self, name: str, config: StageConfig, folder: StageFolder) -> None:
        device.setup(self._config.parallel.device, self._config.parallel.threads, dump_dir=self._run.path / "dumps")
        # these import MindSpore, which a run whose stages are all done need not wait for
        from llmstack.engine.loop import Clock, Intervals, fit
        from llmstack.stages.base import StageContext

        clock = Clock()
        _log.info("%s (%s)", name, config.kind)
        context = StageContext(
            name=name,
            seed=self._config.seed,
            model=self._model_of(name),
            tokenizer=self._tokenizer,
            inputs={
                source: self._folder_of(source) for source in model_refs(type(config), self._resolved["stages"][name])
            },
        )
        stage = STAGES.get(config.kind)(config, context)
        stage.build()
        meter = utilisation_of(self._config, name)
        folder.finish(fit(stage, folder, Intervals.of(config), since=clock, utilisation=meter))

    def _model_of(self, name: str) -> ModelConfig:
        return stage_model(name, self._config.stages[name], self._model, self._tokenizer)

    def _folder_of(self, source: str) -> Path:
        return self._run.path / source / "final" if source in self._config.stages else Path(source)

    def _identity(self, name: str, config: StageConfig) -> StageIdentity:
        resolved = self._resolved["stages"][name]
        inputs = {"tokenizer": self._tokenizer.fingerprint()}
        for source in model_refs(type(config), resolved):
            inputs[source] = self._fingerprints.get(source) or hash_files(Path(source))
        if config.lora is not None and config.lora.adapter is not None:
            inputs["lora.adapter"] = hash_files(Path(config.lora.adapter))
        for key, source in _sources(config):
            inputs[key] = SOURCES.get(source.source)(source, seed=self._config.seed).fingerprint()
        own = {"seed": self._config.seed, "model": self._model_of(name).model_dump(mode="json")}
        if config.step_rows is not None:  # the same steps, cut into other micro-batches, are the same run
            resolved = {key: value for key, value in resolved.items() if key not in ("batch_rows", "accumulate")}
            own["step_rows"] = config.step_rows
        options = self._resolved["stages"][name]
        parts = (*_plugin_parts(options), *_functions(type(config), options))
        return StageIdentity({**resolved, **own}, inputs, code_version(*parts))


def stage_model(name: str, config: StageConfig, shared: ModelConfig, tokenizer: Tokenizer) -> ModelConfig:
    """The sizes of a stage's model when it starts from random weights.

    Args:
        name: the stage.
        config: its options.
        shared: the recipe's model, sized.
        tokenizer: gives the vocabulary when the stage leaves it open.

    Raises:
        UserError: the stage's own vocabulary is smaller than the tokenizer's.
    """
    return shared if config.model is None else sized_model(config.model, tokenizer, path=f"stages.{name}.model")


def sized_model(config: ModelConfig, tokenizer: Tokenizer, *, path: str = "model") -> ModelConfig:
    """A model with its vocabulary filled in.

    Args:
        config: the recipe's ``model``, or a stage's.
        tokenizer: gives the vocabulary when the recipe leaves it open.
        path: where the sizes stand in the recipe.

    Raises:
        UserError: the vocabulary is smaller than the tokenizer's.
    """
    if config.vocab_size is None:
        return config.model_copy(update={"vocab_size": tokenizer.vocab_size})
    if config.vocab_size < tokenizer.vocab_size:
        raise UserError(
            f"{path}.vocab_size: expected at least {tokenizer.vocab_size} (the tokenizer's), got {config.vocab_size}. "
            "Write null to take the tokenizer's."
        )
    return config


def model_config(config: RecipeConfig) -> ModelConfig:
    """The recipe's model, read from its folder when it has one.

    Args:
        config: the recipe.

    Raises:
        UserError: the folder cannot be read.
    """
    if not isinstance(config.model, ModelFolderConfig):
        return config.model
    return read_config(config.model.from_).model_copy(update={"provider": config.model.provider})


def model_refs(kind: type[StageConfig], resolved: Mapping[str, Any]) -> list[str]:
    """Stage names and model folders that a stage's options name.

    Args:
        kind: class of the options.
        resolved: the options as plain data.
    """
    found = [
        seen.value
        for seen in visit(kind, resolved)
        if isinstance(seen.value, str) and any(isinstance(mark, ModelRef) for mark in seen.marks)
    ]
    return list(dict.fromkeys(found))


def _sources(config: StageConfig) -> Iterator[tuple[str, SourceConfig]]:
    for key, value in config:
        if isinstance(value, SourceConfig):
            yield key, value


def _functions(kind: type[StageConfig], resolved: Mapping[str, Any]) -> Iterator[Any]:
    """Functions that a stage's options name by address."""
    for seen in visit(kind, resolved):
        if isinstance(seen.value, str) and any(isinstance(mark, CodeRef) for mark in seen.marks):
            yield inspect.unwrap(load_function(seen.value))


def _plugin_parts(resolved: Mapping[str, Any]) -> Iterator[Any]:
    """Classes and functions of plugins that a stage's options name anywhere."""
    registries = {
        "kind": (STAGES, REWARDS, ADVANTAGES),
        "aggregation": (AGGREGATIONS,),
        "source": (SOURCES,),
        "family": (MODELS,),
        "name": (OPTIMIZERS, SCHEDULES, PREFERENCE_LOSSES),
    }
    for key, value in resolved.items():
        if isinstance(value, Mapping):
            yield from _plugin_parts(value)
        elif isinstance(value, str):
            for registry in registries.get(key, ()):
                if value in registry and (part := registry.plugin_part(value)) is not None:
                    yield part
