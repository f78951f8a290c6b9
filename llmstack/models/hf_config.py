"""``config.json`` of a Hugging Face model folder: read, ignoring nothing that changes the numbers, and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from llmstack.config.model import ModelConfig
from llmstack.errors import UserError
from llmstack.models.families import PLAIN, Family
from llmstack.registry import MODELS

ModelKind = Literal["causal", "scalar"]

# Keys that other architectures and options of these ones have, with the only value implemented. A key that is not here
# and not in ModelConfig says nothing about the numbers.
_FIXED: Mapping[str, Any] = {
    "hidden_act": "silu",
    "attention_dropout": 0.0,
    "quantization_config": None,
    "partial_rotary_factor": 1.0,
    "rope_interleaved": False,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "query_pre_attn_scalar": None,
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": None,
    "logits_scaling": 1.0,
    "num_local_experts": None,
    "num_experts": None,
}
_WRITTEN_FIXED = ("hidden_act", "attention_dropout")
# features of ours that config.json has under no key of their own
_OURS_ONLY = {"family", "provider", "attention_out_bias", "qk_norm", *PLAIN}


def read_config(folder: str | Path) -> ModelConfig:
    """The configuration of a model folder.

    Args:
        folder: a Hugging Face model folder.

    Raises:
        UserError: no or broken ``config.json``, a family that is not registered, or a feature it does not implement.
    """
    path = Path(folder) / "config.json"
    return model_config(read_json(path), where=str(path))


def model_config(values: Mapping[str, Any], *, where: str) -> ModelConfig:
    """The configuration that the content of a ``config.json`` says.

    Args:
        values: the content.
        where: where it comes from, for messages.

    Raises:
        UserError: a family that is not registered, a size missing or impossible, or a feature that is not implemented.
    """
    try:
        return _model_config(values, where=where)
    except UserError:
        raise
    except (TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise UserError(
            f"{where}: expected the sizes of a model, got a value of another kind ({error}). Correct the file."
        ) from error


def _model_config(values: Mapping[str, Any], *, where: str) -> ModelConfig:
    name = values.get("model_type")
    if not isinstance(name, str) or name not in MODELS:
        raise UserError(
            f"{where}: model_type: expected one of {', '.join(MODELS.names())}, got {name!r}. "
            "Use a model of a known family, or register its family in a plugin."
        )
    family: Family = MODELS.get(name)
    theta, scaling = _rope(values)
    _check_fixed({**values, "partial_rotary_factor": _partial(values)}, family, where=where)
    heads = values.get("num_attention_heads")
    absent = {
        "num_key_value_heads": heads,
        "head_dim": values["hidden_size"] // heads if heads and "hidden_size" in values else None,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "initializer_range": 0.02,
    }
    features = {key: values[key] for key in family.open if key in values}
    features["rope_scaling"] = scaling
    sizes = {key: values[key] for key in set(ModelConfig.model_fields) - _OURS_ONLY if values.get(key) is not None}
    known = {**absent, **family.absent, **family.implied, **sizes, "rope_theta": theta, **features}
    if family.out_bias_follows:
        known["attention_out_bias"] = bool(known.get("attention_bias", False))
    try:
        config = ModelConfig(family=name, **known)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise UserError(f"{where}: expected the sizes of a {name} model, got {problems}. Correct the file.") from error
    if scaling is not None and "rope_scaling" not in family.open:
        raise UserError(f"{where}: rope_scaling: expected none for {name}, got {scaling}. Use a model without it.")
    return config


def config_json(config: ModelConfig, kind: ModelKind) -> dict[str, Any]:
    """The content of a ``config.json``, without token ids and dtype.

    Args:
        config: the model's sizes.
        kind: language model or one score.
    """
    family: Family = MODELS.get(config.family)
    sizes = config.model_dump(mode="json", exclude=_OURS_ONLY)
    features = {key: getattr(config, key) for key in sorted(family.open) if key != "rope_scaling"}
    if config.rope_scaling is not None:
        features["rope_scaling"] = config.rope_scaling.model_dump(mode="json", exclude_unset=True)
    fixed = {key: _FIXED[key] for key in _WRITTEN_FIXED} | dict(family.fixed)
    labels: dict[str, Any] = {"id2label": {"0": "score"}, "label2id": {"score": 0}} if kind == "scalar" else {}
    architecture = family.scalar_architecture if kind == "scalar" else family.causal_architecture
    return {"architectures": [architecture], "model_type": family.name} | fixed | sizes | features | labels


def folder_kind(folder: str | Path) -> ModelKind:
    """Whether a model folder holds a language model or one with a scalar head.

    Args:
        folder: a Hugging Face model folder.

    Raises:
        UserError: ``config.json`` names an architecture that is neither.
    """
    path = Path(folder) / "config.json"
    return model_kind(read_json(path), where=str(path))


def model_kind(values: Mapping[str, Any], *, where: str) -> ModelKind:
    """Whether the content of a ``config.json`` is of a language model or of one with a scalar head.

    Args:
        values: the content.
        where: where it comes from, for messages.

    Raises:
        UserError: it names an architecture that is neither.
    """
    family: Family = MODELS.get(model_config(values, where=where).family)
    listed = values.get("architectures")
    architectures = listed if isinstance(listed, list) else []
    if family.causal_architecture in architectures:
        return "causal"
    if family.scalar_architecture in architectures:
        return "scalar"
    raise UserError(
        f"{where}: architectures: expected {family.causal_architecture} or "
        f"{family.scalar_architecture}, got {listed!r}. Use a folder of one of these."
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Args:
        path: the file.

    Raises:
        UserError: no file, or no JSON object in it.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: expected a file, got none. Name a Hugging Face model folder.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: expected JSON, got {error}. Correct the file.") from error
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected a JSON object, got {type(values).__name__}. Correct the file.")
    return values


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object, keys sorted.

    Args:
        path: the file.
        values: the object.
    """
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _rope(values: Mapping[str, Any]) -> tuple[float, dict[str, Any] | None]:
    """Base of the rotary frequencies and how they are stretched, from the old keys or the new one."""
    rope = dict(values.get("rope_parameters") or values.get("rope_scaling") or {})
    theta = float(rope.pop("rope_theta", None) or values.get("rope_theta") or 10000.0)
    kind = rope.pop("type", None)
    rope.setdefault("rope_type", kind or "default")
    rope.pop("partial_rotary_factor", None)
    if rope["rope_type"] == "default":
        return theta, None
    if rope["rope_type"] == "yarn":
        rope.setdefault("original_max_position_embeddings", values.get("max_position_embeddings"))
    elif rope["rope_type"] == "linear":
        rope.pop("original_max_position_embeddings", None)
    return theta, {key: value for key, value in rope.items() if value is not None}


def _partial(values: Mapping[str, Any]) -> float:
    """The share of a head's channels that positions turn."""
    inside = (values.get("rope_parameters") or {}).get("partial_rotary_factor")
    return inside if inside is not None else values.get("partial_rotary_factor", 1.0)


def _check_fixed(values: Mapping[str, Any], family: Family, *, where: str) -> None:
    """Refuse what would change the numbers and is not implemented."""
    windowed = "sliding_window" in family.open and values.get("sliding_window", 0) is not None
    alike = "sliding_attention" if windowed else "full_attention"
    if others := {str(kind) for kind in values.get("layer_types") or () if kind != alike}:
        raise UserError(
            f"{where}: layer_types: expected {alike} in every layer, got {', '.join(sorted(others))} in some. "
            "Use a model whose layers are alike."
        )
    for key, only in {**_FIXED, **family.fixed}.items():
        if values.get(key, only) != only:
            raise UserError(
                f"{where}: {key}: expected {only!r}, the only value implemented for {family.name}, "
                f"got {values[key]!r}. Use a model without it."
            )
    for key, plain in PLAIN.items():
        # a window that is switched off and stretched positions are looked at elsewhere
        if key in family.open or key in ("rope_scaling", "sliding_window"):
            continue
        only = family.implied.get(key, plain)
        if values.get(key) not in (only, None):
            raise UserError(
                f"{where}: {key}: expected {only!r}, the only value of {family.name}, got {values[key]!r}. "
                "Use a model without it."
            )
