"""The frozen model a student learns from, and what it must share with the student."""

from __future__ import annotations

from pathlib import Path

from llmstack.config.distill import DivergenceConfig
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.losses.distill import DistillationLoss, divergence
from llmstack.models.causal_lm import CausalLM
from llmstack.stages.base import Stage


def load_teacher(stage: Stage, source: str, student: CausalLM) -> CausalLM:
    """The teacher, frozen; its tokens must be the student's.

    Args:
        stage: loads models and says where the tokenizer is from.
        source: stage name or folder of the teacher.
        student: the model that learns.

    Raises:
        UserError: vocabularies differ, or the teacher's context is shorter than the stage's rows.
    """
    context, start = stage.context, stage.config.init_from
    path, folder = f"stages.{context.name}.teacher", context.inputs[source]
    owner = str(context.inputs[start]) if start is not None else "the recipe's tokenizer"
    check_vocabulary(path, folder, context.tokenizer, owner)
    teacher = stage.language_model(source, "teacher")
    sizes = [model.config.vocab_size for model in (teacher, student)]
    if sizes[0] != sizes[1]:
        raise UserError(
            f"{path}: expected a teacher with a vocabulary of {sizes[1]} (the student's, {owner}), got {sizes[0]} in "
            f"{folder}. Give the student's `model.vocab_size` the teacher's size."
        )
    for name, parameter in teacher.parameters_and_names():
        # the two models are in one graph, where names must differ
        parameter.name = f"teacher.{name}"
        parameter.requires_grad = False
    return teacher


def check_vocabulary(path: str, folder: Path, tokenizer: Tokenizer, owner: str) -> None:
    """Refuse a teacher by whose ids other tokens are meant.

    Args:
        path: the option that names the teacher.
        folder: the teacher's model folder, with its tokenizer.
        tokenizer: the student's.
        owner: where that is from, for the message.

    Raises:
        UserError: the vocabularies differ.
        DataError: the folder has no tokenizer.
    """
    other = Tokenizer.load(folder)
    if other.vocabulary_fingerprint() == tokenizer.vocabulary_fingerprint():
        return
    theirs, ours = ({i: text for text, i in side.vocabulary.items()} for side in (other, tokenizer))
    first = min(i for i in theirs.keys() | ours.keys() if theirs.get(i) != ours.get(i))
    raise UserError(
        f"{path}: expected a teacher with the student's vocabulary ({owner}, {len(ours)} tokens), got {folder} with "
        f"{len(theirs)}: token {first} is {_shown(theirs.get(first))} there and {_shown(ours.get(first))} here. "
        "Train the student with the teacher's tokenizer: `tokenizer: {kind: folder, path: <the teacher's folder>}`."
    )


def _shown(token: str | None) -> str:
    return "missing" if token is None else repr(token)


def soft_loss(options: DivergenceConfig, student: CausalLM, path: str) -> DistillationLoss:
    """The loss that a stage's ``divergence`` describes.

    Args:
        options: which divergence, temperature and tokens told apart.
        student: the model that learns.
        path: where the options stand in the recipe.

    Raises:
        UserError: ``top_k`` is more than there are tokens.
    """
    size = student.config.vocab_size
    if options.top_k is not None and size is not None and options.top_k > size:
        raise UserError(
            f"{path}.top_k: expected at most {size} (the vocabulary), got {options.top_k}. Lower it, or write null."
        )
    measure = divergence(options.kind, options.beta)
    return DistillationLoss(measure, temperature=options.temperature, top_k=options.top_k)
