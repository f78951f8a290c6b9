"""What a teacher must share with its student."""

from __future__ import annotations

import pytest

from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.models.checkpoint_io import build_causal
from llmstack.stages.distill.teacher import soft_loss
from tests.helpers import stages as tiny
from tests.unit.stages.distill.conftest import teacher_folder


def other_tokenizer(size=270):
    return Tokenizer(*train_bpe(["one two three four five"] * 4, size), CHATML)


def test_a_teacher_with_other_tokens_is_refused_with_both_folders(make, tmp_path):
    folder = teacher_folder(tmp_path / "teacher", tokenizer=other_tokenizer())
    words = rf"stages.stage.teacher: expected the teacher {folder} to have the recipe's tokenizer, got another: \d+ ids"
    with pytest.raises(UserError, match=words):
        make(folder=folder).build()
    student = tiny.causal_folder(tmp_path / "student")
    stage = make(folder=folder, inputs={str(student): student}, init_from=str(student))
    with pytest.raises(UserError, match=f"the teacher {folder} of the student {student} to have"):
        stage.build()


def test_a_teacher_with_another_template_is_taken(make, tmp_path):
    backend, settings = train_bpe([" ".join(tiny.WORDS)] * 4, 278)
    folder = teacher_folder(tmp_path / "teacher", tokenizer=Tokenizer(backend, settings, None))
    stage = make(folder=folder)
    stage.build_models()
    assert not any(parameter.requires_grad for parameter in stage.teacher.get_parameters())


def test_sizes_of_vocabularies_must_be_equal(make, tmp_path):
    size = tiny.tokenizer().vocab_size
    folder = teacher_folder(tmp_path / "teacher", vocab_size=size + 2)
    words = rf"teacher: expected a teacher with a vocabulary of {size} \(the student's\), got {size + 2} in {folder}"
    with pytest.raises(UserError, match=words):
        make(folder=folder).build()


def test_a_context_too_short_is_refused(make, tmp_path):
    folder = teacher_folder(tmp_path / "teacher", max_position_embeddings=32)
    with pytest.raises(UserError, match=rf"rows of at most 32 tokens \(the context of {folder}\), got 48"):
        make(folder=folder).build()


def test_more_tokens_than_there_are_cannot_be_told_apart(make):
    student, stage = build_causal(tiny.model_config(), seed=0), make(divergence={"kind": "forward_kl", "top_k": 5000})
    with pytest.raises(UserError, match=r"divergence.top_k: expected at most 278 \(the vocabulary\), got 5000"):
        soft_loss(stage.config.divergence, student, "stages.a.divergence")
