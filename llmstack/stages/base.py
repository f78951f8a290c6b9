"""What every stage is: six hooks the engine's loop calls, and the parts most stages share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from llmstack.config.data import SourceConfig
from llmstack.config.model import ModelConfig
from llmstack.config.stages import StageConfig
from llmstack.data.corpus import Corpus
from llmstack.data.loader import Loader
from llmstack.data.records import Record
from llmstack.data.row_tables import Rows
from llmstack.data.stage_data import describe, part_path, parts_of, training_loader
from llmstack.data.tokenizer import Tokenizer
from llmstack.engine.protocol import StageState, StepReport
from llmstack.errors import UserError
from llmstack.models.adapters import put_on_adapters, save_adapter
from llmstack.models.causal_lm import CausalLM
from llmstack.models.checkpoint_io import build_causal, build_scalar, load_weights, save_model
from llmstack.models.hf_config import folder_kind, read_config
from llmstack.models.providers import provided
from llmstack.models.scalar_model import ScalarModel
from llmstack.runtime.seeds import derived_seed, rng

TrainedModel = TypeVar("TrainedModel", CausalLM, ScalarModel)


@dataclass(frozen=True)
class StageContext:
    """What a stage is given beside its own options.

    Attributes:
        name: the stage's name in the recipe.
        seed: the recipe's seed; every generator of the stage is derived from it and the name.
        model: sizes of a model that starts from random weights, vocabulary filled in.
        tokenizer: the recipe's.
        inputs: name of an earlier stage (or the path itself) -> model folder, for all the options that name one.
    """

    name: str
    seed: int
    model: ModelConfig
    tokenizer: Tokenizer
    inputs: Mapping[str, Path]

    @property
    def corpus(self) -> Corpus:
        """Makes rows of data options."""
        return Corpus(self.tokenizer, self.seed)

    def generator(self, *names: str | int) -> np.random.Generator:
        """The random generator of one purpose of this stage.

        Args:
            names: the purpose, e.g. ``("rollout", iteration)``.
        """
        return rng(self.seed, self.name, *names)

    def derived_seed(self, *names: str | int) -> int:
        """An integer seed for one purpose of this stage.

        Args:
            names: the purpose.
        """
        return derived_seed(self.seed, self.name, *names)


class Stage(ABC):
    """One step of a chain. Subclass it (or a built-in stage) and override hooks to make an own alignment method.

    The loop calls ``build_models``, ``build_loader``, ``build_loss`` once, then ``step`` and ``evaluate``, and moves
    ``state`` in and out of checkpoints. A hook that draws random numbers takes them from ``context.generator``.

    Args:
        config: the stage's options.
        context: what it is given.
    """

    kind: ClassVar[str]
    config: StageConfig
    loader: Loader

    def __init__(self, config: StageConfig, context: StageContext) -> None:
        self.config = config
        self.context = context

    # --- hooks ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def build_models(self) -> None:
        """Make the models and load what they start from."""

    @abstractmethod
    def build_loader(self) -> None:
        """Set ``self.loader`` and what ``evaluate`` needs."""

    @abstractmethod
    def build_loss(self) -> None:
        """Make objectives, optimizers and scoring Cells."""

    @abstractmethod
    def step(self, index: int) -> StepReport:
        """Take one step.

        Args:
            index: number of the step, from 1.
        """

    def undo_step(self) -> None:
        """Put back what a step had taken before it raised ``StepUndone``: the data it had read."""
        self.loader.rewind()

    @abstractmethod
    def evaluate(self) -> dict[str, float]:
        """Measure on data never trained on; must not change any state. Keys start with ``eval/``."""

    @abstractmethod
    def state(self) -> StageState:
        """All that a resumed run needs to go on exactly."""

    @abstractmethod
    def restore(self, state: StageState) -> None:
        """Put a ``state`` back.

        Args:
            state: what ``state()`` gave.
        """

    # --- shared parts --------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Call the building hooks in order."""
        self.build_models()
        self.build_loader()
        self.build_loss()

    @property
    def total_steps(self) -> int:
        """Steps of the whole budget."""
        return self.loader.steps(self.config.budget, self.config.step_batches)

    def samples(self) -> list[dict[str, Any]]:
        """What the model wrote at the last evaluation, for ``samples.jsonl``."""
        return []

    @property
    @abstractmethod
    def final_model(self) -> CausalLM | ScalarModel:
        """The model the stage hands on."""

    def save_final(self, folder: Path) -> None:
        """Write the model folder the stage hands on: whole weights, and with ``lora`` the adapter beside them.

        Args:
            folder: an existing empty folder.
        """
        tokenizer = self.context.tokenizer
        save_model(
            self.final_model,
            folder,
            dtype=self.config.final_dtype,
            eos_ids=tokenizer.eos_ids,
            pad_id=tokenizer.pad_id,
        )
        tokenizer.save(folder)
        if self.config.lora is not None:
            base = self.config.init_from and str(self.context.inputs[self.config.init_from])
            save_adapter(self.final_model, folder / "adapter", self.config.lora, base=base)

    def records(self, source: SourceConfig) -> list[Record]:
        """Records of one of the stage's data options.

        Args:
            source: the option, e.g. ``self.config.data``.
        """
        return list(self.context.corpus.records(source))

    def make_loader(self, encode: Callable[[SourceConfig], Rows]) -> Loader:
        """A training loader over ``data``, in seeded order; the parts of a blend are encoded one by one.

        Args:
            encode: makes rows of a data option.
        """
        path, data = f"stages.{self.context.name}.data", self.config.data
        parts = {name: encode(source) for name, source in parts_of(data).items()}
        for name, rows in parts.items():
            describe(part_path(path, data, name), rows)
        return training_loader(self.config, parts, seed=self.context.derived_seed("order"), path=path)

    def language_model(self, source: str | None, purpose: str) -> CausalLM:
        """A language model from an earlier stage or folder, or with random weights.

        Args:
            source: stage name or folder; None for random weights.
            purpose: what it is for; part of the seed of random weights.
        """
        if source is None:
            model = build_causal(self.context.model, seed=self.context.derived_seed("weights", purpose))
        else:
            folder = self.context.inputs[source]
            model = build_causal(self.fitting_config(folder), seed=None)
            load_weights(model, folder)
        return provided(model, self.context.model.provider)

    def scalar_model(self, source: str | None, purpose: str) -> ScalarModel:
        """A reward or value model; one that starts from a language model takes its trunk and a new head.

        Args:
            source: stage name or folder; None for random weights.
            purpose: what it is for; part of the seed of random weights.
        """
        seed = self.context.derived_seed("weights", purpose)
        if source is None:
            model = build_scalar(self.context.model, seed=seed)
        else:
            folder = self.context.inputs[source]
            model = build_scalar(self.fitting_config(folder), seed=seed)
            load_weights(model, folder, trunk_only=folder_kind(folder) == "causal")
        return provided(model, self.context.model.provider)

    def to_train(self, model: TrainedModel, purpose: str) -> TrainedModel:
        """A model ready to be trained: as it is, or frozen with adapters on it when the stage has ``lora``.

        Args:
            model: the model.
            purpose: what it is for; part of the seed of the adapters.
        """
        if self.config.lora is not None:
            put_on_adapters(model, self.config.lora, seed=self.context.derived_seed("lora", purpose))
        return model

    def fitting_config(self, folder: Path) -> ModelConfig:
        """The configuration of a model folder, which must fit the recipe's tokenizer.

        Args:
            folder: a model folder.

        Raises:
            UserError: its vocabulary is smaller than the tokenizer's, or its context shorter than the stage's rows.
        """
        config = read_config(folder)
        longest = self.config.longest_row
        if longest > config.max_position_embeddings:
            raise UserError(
                f"stages.{self.context.name}: expected rows of at most {config.max_position_embeddings} tokens (the "
                f"context of {folder}), got {longest}. Shorten seq_len, or prompt_buckets and response_len."
            )
        size = self.context.tokenizer.vocab_size
        if config.vocab_size is None or config.vocab_size < size:
            raise UserError(
                f"stages.{self.context.name}: expected a model with a vocabulary of at least {size} (the tokenizer's), "
                f"got {config.vocab_size} in {folder}. Use the tokenizer the model was trained with."
            )
        return config
