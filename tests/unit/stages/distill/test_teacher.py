"""What a teacher must share with its student."""

from __future__ import annotations

import re

import pytest

from llmstack.data.bpe import train_bpe
from llmstack.data.chat import CHATML
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.models.checkpoint_io import build_causal
from llmstack.stages.distill.teacher import check_vocabulary, soft_loss
from tests.helpers import stages as tiny
from tests.unit.stages.distill.conftest import teacher_folder


def other_tokenizer(size=270):
    return Tokenizer(*train_bpe(["one two three four five"] * 4, size), CHATML)


def test_a_teacher_with_other_tokens_is_refused_with_both_places(make, tmp_path):
    folder = teacher_folder(tmp_path / "teacher", tokenizer=other_tokenizer())
    words = rf"stages.stage.teacher: expected .*the recipe's tokenizer, 278 tokens.*{folder} with 270: token \d+ is '"
    with pytest.raises(UserError, match=words):
        make(folder=folder).build()
    student = tiny.causal_folder(tmp_path / "student")
    stage = make(folder=folder, inputs={str(student): student}, init_from=str(student))
    with pytest.raises(UserError, match=re.escape(str(student))):
        stage.build()


def test_a_token_that_one_side_lacks_is_named(tmp_path):
    bigger = other_tokenizer(272)
    bigger.save(tmp_path)
    with pytest.raises(UserError, match=r"with 272: token \d+ is '.*' there and missing here"):
        check_vocabulary("stages.a.teacher", tmp_path, other_tokenizer(), "there")
    assert check_vocabulary("stages.a.teacher", tmp_path, bigger, "there") is None


def test_a_template_of_its_own_does_not_matter(tmp_path):
    backend, settings = train_bpe([" ".join(tiny.WORDS)] * 4, 278)
    Tokenizer(backend, settings, None).save(tmp_path)
    assert check_vocabulary("stages.a.teacher", tmp_path, tiny.tokenizer(), "there") is None


def test_sizes_of_vocabularies_must_be_equal(make, tmp_path):
    size = tiny.tokenizer().vocab_size
    folder = teacher_folder(tmp_path / "teacher", vocab_size=size + 2)
    words = rf"stages.stage.teacher: expected a teacher with a vocabulary of {size} .*, got {size + 2} in {folder}"
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
