"""Checkpoints of MindFormers' trainer to Hugging Face folders and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from llmstack.config.model import ModelConfig
from llmstack.errors import UserError
from llmstack.integrations.mindformers.twin import stored_arrays, stored_shapes
from llmstack.integrations.mindformers.weights import (
    DEFAULT_LAYOUT,
    FusedLayout,
    from_mindformers,
    names_for,
    stored_names,
    to_mindformers,
)
from llmstack.models.causal_lm import CausalLM
from llmstack.models.checkpoint_io import build_causal, load_weights, save_model
from llmstack.models.hf_config import read_config, read_json
from llmstack.models.tensor_files import StoredTensor, tensors_of_file, write_tensors
from llmstack.models.weights import check_match, import_arrays
from llmstack.registry import MODELS

_TRACKER = "latest_checkpointed_iteration.txt"
RUN_FILE, START_FILE = "run.yaml", "model.safetensors"
"""An exported run's settings, and the weights it starts from."""
_EMBEDDING = "embedding.word_embeddings.weight"
_OPTIMIZER_PREFIXES = ("adam_m.", "adam_v.", "exp_avg.", "exp_avg_sq.", "moments.", "accu_grads.")
_ONE_FILE = 2**62


def mindformers_to_hf(
    source: str | Path,
    config: ModelConfig,
    out: str | Path,
    *,
    layout: FusedLayout = DEFAULT_LAYOUT,
    dtype: str = "float32",
    eos_ids: Sequence[int] = (),
    pad_id: int | None = None,
) -> Path:
    """Turns a checkpoint of MindFormers' trainer into a Hugging Face model folder, which is also one of ours.

    Args:
        source: a safetensors file, the folder of one iteration, the folder of all of them, whose newest is taken, or
            that of an exported run. Optimizer state in it is left behind.
        config: family and sizes of the model.
        out: folder to write.
        layout: how the trained network ordered its fused rows; the file does not say.
        dtype: how weights are stored: ``float32``, ``float16`` or ``bfloat16``.
        eos_ids: every token that ends an answer.
        pad_id: the padding token.

    Returns:
        ``out``.

    Raises:
        UserError: no checkpoint there, one cut over several cards, weights that are not exactly the model's, or ``out``
            is where the checkpoint is.
    """
    _check_apart(Path(source), Path(out))
    tensors = checkpoint_weights(Path(source))
    model = build_causal(config, seed=None)
    found = {name: tensor.shape for name, tensor in tensors.items()}
    check_match(_expected_shapes(model), found, source=str(source))
    stored = from_mindformers({name: tensor.read() for name, tensor in tensors.items()}, config, layout)
    arrays = {
        weight.name: np.concatenate([stored[part] for part in weight.stored])
        for weight in MODELS.get(config.family).weight_maps(config)
        if weight.stored[0] in stored
    }
    import_arrays(model, arrays, source=str(source))
    save_model(model, out, dtype=dtype, eos_ids=eos_ids, pad_id=pad_id)
    return Path(out)


def hf_to_mindformers(
    folder: str | Path, out: str | Path, *, layout: FusedLayout = DEFAULT_LAYOUT, dtype: str = "float32"
) -> Path:
    """Turns a Hugging Face model folder into a safetensors file that MindFormers' trainer loads.

    Args:
        folder: of a language model.
        out: folder to write; the file in it is ``model.safetensors``.
        layout: order of the fused rows that the network to be trained has.
        dtype: how weights are stored.

    Returns:
        The file.

    Raises:
        UserError: the folder cannot be read, or ``out`` is the same.
    """
    _check_apart(Path(folder), Path(out))
    config = read_config(folder)
    model = build_causal(config, seed=None)
    load_weights(model, folder)
    Path(out).mkdir(parents=True, exist_ok=True)
    arrays = to_mindformers(stored_arrays(model), config, layout)
    write_tensors(arrays.items(), Path(out), dtype=dtype, max_shard_bytes=_ONE_FILE)
    return Path(out) / "model.safetensors"


def _check_apart(source: Path, out: Path) -> None:
    """Weights of the same file name would be written over those that are read."""
    folder = source.parent if source.is_file() else source
    if folder.resolve() == out.resolve():
        raise UserError(f"out: expected another folder than that of the weights, got {out}. Name another.")


def _expected_shapes(model: CausalLM) -> dict[str, tuple[int, ...]]:
    """MindFormers name -> shape of every weight that the model needs."""
    shapes = stored_shapes(model)
    expected = {}
    for name in names_for(shapes):
        parts = [shapes[part] for part in stored_names(name) or ()]
        expected[name] = (sum(part[0] for part in parts), *parts[0][1:])
    return expected


def checkpoint_weights(source: Path) -> dict[str, StoredTensor]:
    """The weights of a checkpoint by MindFormers' name, without whatever stands before the network's own names.

    Args:
        source: see :func:`mindformers_to_hf`.

    Raises:
        UserError: no checkpoint there, one cut over several cards, or a tensor that is neither a weight of a known name
            nor the trainer's state.
    """
    tensors: dict[str, StoredTensor] = {}
    for path in _files(source):
        for tensor in tensors_of_file(path).values():
            if tensor.name in tensors and not _is_state(tensor.name):
                raise UserError(
                    f"{source}: expected every tensor in one file, got {tensor.name} in "
                    f"{tensors[tensor.name].path.name} and {path.name}: it was cut over several cards. "
                    "Merge it with `mindspore.unified_safetensors`."
                )
            tensors[tensor.name] = tensor
    prefix = _prefix(tensors, source)
    weights = {name: tensor for name, tensor in tensors.items() if not _is_state(name)}
    unknown = sorted(n for n in weights if not n.startswith(prefix) or stored_names(n.removeprefix(prefix)) is None)
    if unknown:
        raise UserError(
            f"{source}: expected weights of a Llama-like mcore network, got {', '.join(unknown[:3])}"
            f"{' ...' if len(unknown) > 3 else ''}. Only dense networks without extra layers can be read."
        )
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items()}


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    source = _saved_in(source)
    newest_file = _newest_of_steps(source)
    if newest_file is not None:
        return [newest_file]
    tracker = source / _TRACKER
    if tracker.is_file():
        text = tracker.read_text(encoding="utf-8").strip()
        newest = source / f"iteration_{int(text):08d}" if text.isdigit() else source / text
        return _files_of_iteration(newest)
    return _files_of_iteration(source)


def _saved_in(folder: Path) -> Path:
    """Where the trainer has saved, when the folder is that of an exported run, its output, or that of all cards."""
    if (folder / RUN_FILE).is_file() and (folder / START_FILE).is_file():
        # the weights beside run.yaml are those the run starts from
        if not (folder / "output" / "checkpoint").is_dir():
            raise UserError(
                f"{folder}: expected a run that has been trained, got one without output/checkpoint. "
                f"Run `python {folder / 'train.py'}` first."
            )
        folder = folder / "output"
    if (folder / "checkpoint").is_dir():
        folder = folder / "checkpoint"
    cards = sorted(path.name for path in folder.glob("rank_*") if path.is_dir())
    if len(cards) > 1:
        raise UserError(
            f"{folder}: expected the checkpoint of one card, got {', '.join(cards)}. Name one of them when each has "
            "all weights, else merge them with `mindspore.unified_safetensors`."
        )
    return folder / cards[0] if cards else folder


def _newest_of_steps(folder: Path) -> Path | None:
    """The file that the trainer's note calls the last; None without a note."""
    note = folder / "meta.json"
    name = read_json(note).get("last_ckpt_file") if note.is_file() else None
    if not isinstance(name, str):
        return None
    if Path(name).name != name or not (folder / name).is_file():
        raise UserError(f"{note}: last_ckpt_file: expected a file beside it, got {name!r}. Name the checkpoint itself.")
    return folder / name


def _files_of_iteration(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.safetensors"))
    # an iteration's folder keeps the optimizer in files of its own: opt-0000000-0000001, or prefix-opt-...
    models = [path for path in files if "opt" not in path.name.split("-")]
    if not models:
        raise UserError(
            f"{folder}: expected a checkpoint of MindFormers in safetensors, got none. "
            "Name a file, or the folder of an iteration."
        )
    steps = [path.name for path in models if "_rank_" in path.name]
    if len(steps) > 1:
        raise UserError(
            f"{folder}: expected one checkpoint, got {len(steps)} ({steps[0]} ... {steps[-1]}). Name one of the files."
        )
    return models


def _prefix(names: Mapping[str, StoredTensor], source: Path) -> str:
    found = [name for name in names if name.endswith(_EMBEDDING) and not _is_state(name)]
    if len(found) != 1:
        raise UserError(
            f"{source}: expected one tensor {_EMBEDDING}, got {', '.join(found) or 'none'}. "
            "Name a checkpoint of an mcore network (`use_legacy: False`)."
        )
    return found[0].removesuffix(_EMBEDDING)


def _is_state(name: str) -> bool:
    """Moments, or a counter of the trainer: those stand in no Cell, so their names have no dot."""
    return name.startswith(_OPTIMIZER_PREFIXES) or "." not in name
