"""Checks that need more than one part of a recipe, or the disk. Each returns its problems; none stops the others."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from llmstack.config.markers import CodeRef, ModelRef, PathRef
from llmstack.config.mesh_checks import model_problems, stage_problems
from llmstack.config.model import ModelConfig
from llmstack.config.named import Registered
from llmstack.config.parallel import ParallelConfig
from llmstack.config.provenance import Origins
from llmstack.config.recipe import RecipeConfig
from llmstack.config.stages import StageConfig
from llmstack.config.walk import visit
from llmstack.errors import Problem, UserError
from llmstack.plugins import load_function
from llmstack.registry import STAGES, did_you_mean

M = TypeVar("M", bound=BaseModel)


def check(tree: Mapping[str, Any], origins: Origins) -> list[Problem]:
    """Runs every check on the plain tree, so that a value that cannot be decoded hides nothing elsewhere.

    Args:
        tree: the composed recipe.
        origins: where its values came from.

    Returns:
        The problems found, each with its path and origin.
    """
    found = [
        *_check_references(tree),
        *check_paths(RecipeConfig, tree),
        *_check_model_folder(tree),
        *_check_vocabulary(tree),
        *_check_lengths(tree),
        *_check_provider(tree),
        *_check_mesh(tree),
    ]
    return [Problem(path, message, origins.find(path)) for path, message in found]


def _check_references(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every mark ModelRef names an earlier stage that makes a fitting model, or a model folder."""
    stages = tree.get("stages")
    if not isinstance(stages, Mapping):
        return
    names = [str(name) for name in stages]
    for seen in visit(RecipeConfig, tree):
        mark = next((mark for mark in seen.marks if isinstance(mark, ModelRef)), None)
        if mark is None or not isinstance(seen.value, str):
            continue
        current = seen.path.split(".")[1]
        earlier = names[: names.index(current)]
        message = _reference_problem(seen.value, mark, current, earlier, stages)
        if message:
            yield seen.path, message


def _reference_problem(
    name: str, mark: ModelRef, current: str, earlier: list[str], stages: Mapping[str, Any]
) -> str | None:
    wanted = " or ".join(kind.replace("_", " ") for kind in mark.accepts)
    fitting = [stage for stage in earlier if _produces(stages[stage]) in (*mark.accepts, None)]
    expected = (
        f"expected an earlier stage that makes a {wanted} ({', '.join(fitting) or 'there is none'}) or a model folder"
    )
    if name in fitting or (name not in stages and Path(name, "config.json").is_file()):
        return None
    if name in earlier:
        made = str(_produces(stages[name])).replace("_", " ")
        return f"{expected}, got {name!r}, a stage that makes a {made}. Name another."
    if name in stages:
        what = "this stage itself" if name == current else "a later stage"
        return f"{expected}, got {name!r}, {what}. Move that stage above this one, or name another."
    if Path(name).is_dir():
        return f"{expected}, got {name!r}, a folder without config.json. Name the folder that holds config.json."
    return f"{expected}, got {name!r}. {did_you_mean(name, fitting) or 'Check the name, or the path of the folder.'}"


def _produces(stage: Any) -> str | None:
    """What kind of model a stage makes; None when its kind is not known."""
    kind = stage.get("kind") if isinstance(stage, Mapping) else None
    if not isinstance(kind, str) or kind not in STAGES:
        return None
    return Registered(STAGES, "kind").model(kind, StageConfig).produces


def check_paths(model: type[BaseModel], tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every mark PathRef leads to something on this machine, every mark CodeRef to a function.

    Args:
        model: the class that describes ``tree``.
        tree: plain data.

    Yields:
        Dotted path and message of each that does not.
    """
    for seen in visit(model, tree):
        for mark in seen.marks if isinstance(seen.value, str) else ():
            message = None
            if isinstance(mark, PathRef) and seen.value != mark.unless:
                message = _path_problem(mark, seen.value)
            elif isinstance(mark, CodeRef):
                message = _code_problem(seen.value)
            if message is not None:
                yield seen.path, message


def _path_problem(mark: PathRef, value: str) -> str | None:
    expected: Any = None
    if mark.kind == "folder" and not Path(value).is_dir():
        expected = "an existing folder"
    elif mark.kind == "files" and not glob.glob(value, recursive=True):
        expected = f"{f'{mark.unless!r} or ' if mark.unless else ''}an existing file or a glob that matches some"
    elif mark.kind == "token_files":
        missing = [value + end for end in (".bin", ".idx") if not Path(value + end).is_file()]
        expected = (
            f"the beginning of the names of a .bin and an .idx file (there is no {missing[0]})" if missing else None
        )
    return f"expected {expected}, got {value!r}. {_from_here()}" if expected else None


def _code_problem(value: str) -> str | None:
    try:
        load_function(value)
    except UserError as error:
        return str(error)
    return None


def _check_model_folder(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """``model.from`` is a model folder, not just some folder."""
    model = tree.get("model")
    folder = model.get("from") if isinstance(model, Mapping) else None
    if isinstance(folder, str) and Path(folder).is_dir() and not Path(folder, "config.json").is_file():
        yield (
            "model.from",
            f"expected a model folder, got {folder!r}, one without config.json. Name the folder that holds it.",
        )


def _from_here() -> str:
    return f"Check the path; it counts from {Path.cwd()}."


def _check_vocabulary(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The embedding has a row for each token."""
    shared, tokens = _int(tree, "model", "vocab_size"), _int(tree, "tokenizer", "vocab_size")
    found = {"model": shared}
    for name in _stages(tree):
        own = _int(tree, "stages", name, "model", "vocab_size")
        if own != shared:  # what a stage takes over is told once
            found[f"stages.{name}.model"] = own
    for path, rows in found.items():
        if rows is not None and tokens is not None and 0 < rows < tokens:
            yield (
                f"{path}.vocab_size",
                f"expected at least tokenizer.vocab_size ({tokens}), got {rows}. "
                "Raise it, or write null to take the tokenizer's.",
            )


def _check_lengths(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """No row is longer than the model's context; a model that a stage takes from a folder has that folder's."""
    stages = _stages(tree)
    for name, stage in stages.items():
        root = _first_of(stages, name)
        if root is None:
            continue
        own = isinstance(stages[root], Mapping) and isinstance(stages[root].get("model"), Mapping)
        path = ("stages", root, "model") if own else ("model",)
        context = _int(tree, *path, "max_position_embeddings")
        if context is None:
            continue
        key = ".".join((*path, "max_position_embeddings"))
        limit, fix = f"at most {key} ({context})", f"Shorten it, or raise {key}."
        response = _int(stage, "response_len")
        buckets = stage.get("prompt_buckets") if isinstance(stage, Mapping) else None
        for keys in (("seq_len",), ("pretraining", "seq_len")):
            seq_len = _int(stage, *keys)
            if seq_len is not None and seq_len > context:
                yield ".".join(("stages", name, *keys)), f"expected {limit}, got {seq_len}. {fix}"
        if response is not None and isinstance(buckets, list) and buckets and isinstance(buckets[-1], int):
            if buckets[-1] + response > context:
                what = f"the last of prompt_buckets and response_len together {limit}"
                yield f"stages.{name}.response_len", f"expected {what}, got {buckets[-1]} + {response}. {fix}"


def _stages(tree: Mapping[str, Any]) -> Mapping[Any, Any]:
    stages = tree.get("stages")
    return stages if isinstance(stages, Mapping) else {}


def _first_of(stages: Mapping[Any, Any], name: Any) -> Any:
    """The stage with whose random weights a stage's model began; None when that was a folder."""
    for _ in stages:  # a stage that names a later one must not send this round in circles
        if name not in stages:
            return None
        source = stages[name].get("init_from") if isinstance(stages[name], Mapping) else None
        if source is None:
            return name
        name = source
    return name if name in stages else None


def _check_provider(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Adapters are put on our own network alone."""
    model, stages = tree.get("model"), tree.get("stages")
    provider = model.get("provider", "native") if isinstance(model, Mapping) else "native"
    if provider == "native" or not isinstance(stages, Mapping):
        return
    for name, stage in stages.items():
        if isinstance(stage, Mapping) and stage.get("lora") is not None:
            yield (
                f"stages.{name}.lora",
                f"expected null because model.provider is {provider}, got options. "
                "Write `provider: native`, or train the whole model.",
            )


def _check_mesh(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The mesh divides models and rows; said of what can be decoded."""
    parallel = _decoded(ParallelConfig, tree.get("parallel"))
    if parallel is None or parallel.num_devices == 1:
        return
    found: dict[str, str] = {}
    stages = _stages(tree)
    own = {f"stages.{name}.model": stage.get("model") for name, stage in stages.items() if isinstance(stage, Mapping)}
    for where, options in {"model": tree.get("model"), **own}.items():
        if (model := _decoded(ModelConfig, options)) is not None:
            for path, message in model_problems(parallel, model, where):
                found.setdefault(path, message)
    for name, options in stages.items():
        kind = options.get("kind") if isinstance(options, Mapping) else None
        if isinstance(kind, str) and kind in STAGES:
            stage = _decoded(Registered(STAGES, "kind").model(kind, StageConfig), options)
            found |= dict(stage_problems(parallel, name, stage)) if stage is not None else {}
    yield from found.items()


def _decoded(kind: type[M], options: Any) -> M | None:
    """Options of a class; None when they are wrong, which is told elsewhere."""
    try:
        return kind.model_validate(options)
    except ValidationError:
        return None


def _int(tree: Any, *path: str) -> int | None:
    """The whole number at a path of a plain tree; None when there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree if isinstance(tree, int) and not isinstance(tree, bool) else None
