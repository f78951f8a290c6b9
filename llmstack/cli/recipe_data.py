"""What the commands that look at a recipe's data share: the recipe, its tokenizer, its data options, their rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmstack.config.data import SourceConfig
from llmstack.config.load import load_recipe
from llmstack.config.stages import StageConfig
from llmstack.data.corpus import Corpus
from llmstack.data.loader import Loader
from llmstack.data.recipe_tokenizer import build_tokenizer
from llmstack.data.row_tables import Rows
from llmstack.data.stage_data import evaluation_parts_of, part_path, parts_of, training_loader
from llmstack.errors import UserError
from llmstack.runtime.seeds import derived_seed


@dataclass(frozen=True)
class DataOption:
    """One data set of a stage.

    Attributes:
        stage: the stage's name.
        path: dotted path of the option.
        part: its name in metrics and ``rows.jsonl``; empty for evaluation data that has no parts.
        source: the option.
        evaluation: it is of the stage's ``eval_data``.
    """

    stage: str
    path: str
    part: str
    source: SourceConfig
    evaluation: bool


class RecipeData:
    """A recipe's data options and their rows.

    Args:
        recipe: a path, or the name of a shipped recipe.
        overrides: ``key=value`` arguments.
        stage: the one stage to look at; None: all of them.

    Raises:
        UserError: the recipe is wrong, or it has no such stage.
    """

    def __init__(self, recipe: str, overrides: Sequence[str], *, stage: str | None) -> None:
        self.config = load_recipe(recipe, overrides).config
        names = list(self.config.stages)
        if stage is not None and stage not in names:
            raise UserError(f"--stage: expected one of {', '.join(names)}, got {stage!r}. Name a stage of the recipe.")
        self._names = names if stage is None else [stage]
        config = self.config
        self.tokenizer_folder = Path(config.run_dir) / "tokenizer"  # where `llmstack train` keeps a trained one too
        self.tokenizer = build_tokenizer(config.tokenizer, seed=config.seed, cache_dir=self.tokenizer_folder)
        self.corpus = Corpus(self.tokenizer, config.seed)

    @property
    def stages(self) -> dict[str, StageConfig]:
        """The stages to look at, by name."""
        return {name: self.config.stages[name] for name in self._names}

    def options(self, stage: str) -> Iterator[DataOption]:
        """The data options of a stage: each part of its training data, then each of its evaluation data.

        Args:
            stage: its name.
        """
        config, path = self.config.stages[stage], f"stages.{stage}"
        for part, source in parts_of(config.data).items():
            yield DataOption(stage, part_path(f"{path}.data", config.data, part), part, source, evaluation=False)
        for part, source in evaluation_parts_of(config).items():
            where = f"{path}.eval_data.of.{part}" if part else f"{path}.eval_data"
            yield DataOption(stage, where, part, source, evaluation=True)

    def rows(self, option: DataOption) -> Rows:
        """The rows of a data option, as its stage reads them.

        Args:
            option: one of :meth:`options`.

        Raises:
            UserError: nobody knows how the stage encodes its data, or the data is wrong.
        """
        stage = self.config.stages[option.stage]
        return self.corpus.rows(stage, option.source, evaluation=option.evaluation)

    def loader(self, stage: str, parts: dict[str, Rows]) -> Loader:
        """The loader a stage trains from, at the beginning of its data.

        Args:
            stage: the stage's name.
            parts: rows of each part of its training data.
        """
        seed = derived_seed(self.config.seed, stage, "order")
        return training_loader(self.config.stages[stage], parts, seed=seed, path=f"stages.{stage}.data")


def write(text: str) -> None:
    """Print a text, also on a terminal that lacks some of its characters.

    Args:
        text: with its line ends.
    """
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
