"""The frozen model a student learns from, and what it must share with the student."""

from __future__ import annotations

from llmstack.config.distill import DivergenceConfig
from llmstack.data.same_tokens import require_same_tokens
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
    of = "" if start is None else f" of the student {context.inputs[start]}"
    theirs = Tokenizer.load(folder)
    require_same_tokens(context.tokenizer, theirs, where=path, whose=f"the teacher {folder}{of}")
    teacher = stage.language_model(source, "teacher")
    sizes = [model.config.vocab_size for model in (teacher, student)]
    if sizes[0] != sizes[1]:
        raise UserError(
            f"{path}: expected a teacher with a vocabulary of {sizes[1]} (the student's), got {sizes[0]} in {folder}. "
            "Give the student's `model.vocab_size` the teacher's size."
        )
    for name, parameter in teacher.parameters_and_names():
        # the two models are in one graph, where names must differ
        parameter.name = f"teacher.{name}"
        parameter.requires_grad = False
    return teacher


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
