"""A pretraining or fine-tuning stage of a recipe, handed over to MindFormers' own trainer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llmstack.config.load import LoadedRecipe
from llmstack.config.stages import RowStageConfig
from llmstack.data.loader import Loader
from llmstack.data.recipe_tokenizer import build_tokenizer
from llmstack.errors import UserError
from llmstack.optim.schedules import learning_rate
from llmstack.registry import MODELS, STAGES
from llmstack.runtime import device
from llmstack.stages.chain import model_config, model_refs, sized_model, stage_model

if TYPE_CHECKING:
    from llmstack.stages.language import LanguageStage

_OPTIMIZERS = ("adamw", "mindformers:AdamW")


def write_mindformers_run(loaded: LoadedRecipe, stage: str, out: str | Path) -> Path:
    """Writes a folder whose ``train.py`` trains the stage with ``mindformers.Trainer``.

    The run has our starting weights, every batch in our order, our learning rates, clip and AdamW; micro-batches of one
    optimizer step become one batch. It evaluates nothing and draws no samples.

    Args:
        loaded: the checked recipe.
        stage: name of a pretraining or SFT stage; the stage it starts from must be finished in the recipe's run folder.
        out: folder to write, new or empty.

    Returns:
        ``out``.

    Raises:
        UserError: no such stage, one that MindFormers cannot train, a missing input, or a folder that is not empty.
    """
    out, recipe = Path(out), loaded.config
    config = _stage_config(loaded, stage)
    _check_out(out)
    inputs = _inputs(loaded, stage, config)
    # only files are written here, whatever device the run itself is for
    device.setup("cpu")
    from llmstack.integrations.mindformers.run_files import START, TrainerRun, write_run
    from llmstack.stages.base import StageContext

    kind = _stage_class(stage, config)
    tokenizer = build_tokenizer(recipe.tokenizer, seed=recipe.seed, cache_dir=Path(recipe.run_dir) / "tokenizer")
    # the trainer makes its own network: whose network the stage would have used makes no difference
    shared = sized_model(model_config(recipe), tokenizer)
    model = stage_model(stage, config, shared, tokenizer).model_copy(update={"provider": "native"})
    built = kind(config, StageContext(name=stage, seed=recipe.seed, model=model, tokenizer=tokenizer, inputs=inputs))
    built.build_models()
    built.build_loader()
    total = built.total_steps
    (out / START).mkdir(parents=True)
    built.save_final(out / START)
    run = TrainerRun(
        seed=recipe.seed,
        device=recipe.parallel.device,
        sizes=built.final_model.config,
        optim=config.optim,
        columns=built.weigh(built.loader.rows.take(np.arange(len(built.loader.rows)))),
        steps=np.stack([_rows_of_step(built.loader, config.accumulate) for _ in range(total)]),
        shares=np.array([learning_rate(config.optim, step, total) / config.optim.lr for step in range(1, total + 1)]),
    )
    write_run(run, out)
    return out


def _stage_config(loaded: LoadedRecipe, stage: str) -> RowStageConfig:
    """The stage's options, which must be ones that MindFormers' trainer can follow."""
    stages = loaded.config.stages
    if stage not in stages:
        raise UserError(f"--stage: expected one of {', '.join(stages)}, got {stage!r}. Name a stage of the recipe.")
    config = stages[stage]
    if not isinstance(config, RowStageConfig):
        raise UserError(
            f"--stage: expected a stage that trains on packed rows (pretrain or sft), got {stage!r} ({config.kind}): "
            "MindFormers has no trainer for it. Name another."
        )
    if config.z_loss:
        raise UserError(
            f"stages.{stage}.z_loss: expected 0, because MindFormers' loss has no such term, got {config.z_loss:g}. "
            "Add the override z_loss=0."
        )
    if config.optim.name not in _OPTIMIZERS:
        raise UserError(
            f"stages.{stage}.optim.name: expected one of {', '.join(_OPTIMIZERS)}, which MindFormers has, got "
            f"{config.optim.name!r}. Choose one of these."
        )
    if config.lora is not None:
        raise UserError(
            f"stages.{stage}.lora: expected null, because MindFormers' trainer knows none of our adapters, got "
            "options. Export a stage that trains the whole model."
        )
    family = model_config(loaded.config).family
    if MODELS.plugin_part(family) is not None:
        raise UserError(
            f"model.family: expected one of llmstack's own, got {family!r} of a plugin, which MindFormers' trainer "
            "would not import. Export a model of a built-in family."
        )
    return config


def _stage_class(stage: str, config: RowStageConfig) -> type[LanguageStage]:
    """The stage's class, which must descend the next-token loss the way ours do."""
    from llmstack.stages.language import LanguageStage

    kind = STAGES.get(config.kind)
    if not issubclass(kind, LanguageStage) or any(
        getattr(kind, hook) is not getattr(LanguageStage, hook)
        for hook in ("step", "build_loss", "build_models", "objective")
    ):
        raise UserError(
            f"--stage: expected one that trains as pretrain and sft do, got {stage!r} ({config.kind}), whose steps or "
            "loss are its own. Name another."
        )
    return kind


def _check_out(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out: expected a new or empty folder, got {out}. Name another.")


def _inputs(loaded: LoadedRecipe, stage: str, config: RowStageConfig) -> dict[str, Path]:
    """The model folders the stage starts from."""
    run_dir = Path(loaded.config.run_dir)
    inputs = {}
    for source in model_refs(type(config), loaded.resolved["stages"][stage]):
        inputs[source] = run_dir / source / "final" if source in loaded.config.stages else Path(source)
        if not (inputs[source] / "config.json").is_file():
            raise UserError(
                f"stages.{stage}.init_from: expected the finished stage {source!r}, got no model at {inputs[source]}. "
                f"Run `llmstack train ... --stage {source}` first."
            )
    return inputs


def _rows_of_step(loader: Loader, accumulate: int) -> np.ndarray:
    """(R,) int32: the rows of all micro-batches of the next optimizer step."""
    ids = []
    for _ in range(accumulate):
        loader.next()
        ids.append(loader.sample_ids)
    return np.concatenate(ids).astype(np.int32)
