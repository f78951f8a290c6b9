from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.distill import DistillConfig, DistillOnlineConfig, DivergenceConfig
from llmstack.config.load import load_recipe
from llmstack.config.online import OnlineConfig


def distill_options(**changes):
    base = load_recipe("quickstart").resolved["stages"]["base"]
    own = {
        "kind": "distill",
        "teacher": "base",
        "data_kind": "text",
        "divergence": {"kind": "forward_kl"},
        "soft_weight": 1.0,
        "hard_weight": 0.0,
    }
    return base | own | changes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "jensen_shannon"}, "expected a share because `kind` is jensen_shannon, got nothing"),
        ({"kind": "forward_kl", "beta": 0.5}, "expected nothing because `kind` is forward_kl, got 0.5"),
        ({"kind": "jensen_shannon", "beta": 1.0}, "less than 1"),
        ({"kind": "jensen_shannon", "beta": 0.0}, "greater than 0"),
        ({"kind": "forward_kl", "temperature": 0.0}, "greater than 0"),
        ({"kind": "forward_kl", "top_k": 0}, "greater than 0"),
        ({"kind": "kl"}, "'forward_kl', 'reverse_kl' or 'jensen_shannon'"),
    ],
)
def test_divergences_that_cannot_be(options, words):
    with pytest.raises(ValidationError, match=words):
        DivergenceConfig.model_validate(options)


def test_divergences_that_can():
    assert DivergenceConfig.model_validate({"kind": "reverse_kl", "top_k": 8}).temperature == 1.0
    assert DivergenceConfig.model_validate({"kind": "jensen_shannon", "beta": 0.1}).top_k is None


def test_a_student_must_learn_from_its_teacher_and_z_loss_is_part_of_the_hard_loss():
    assert DistillConfig.model_validate(distill_options()).longest_row == 256
    with pytest.raises(ValidationError, match="soft_weight"):
        DistillConfig.model_validate(distill_options(soft_weight=0.0))
    with pytest.raises(ValidationError, match=r"expected 0 because `hard_weight` is 0 .* got 0.1"):
        DistillConfig.model_validate(distill_options(z_loss=0.1))
    DistillConfig.model_validate(distill_options(z_loss=0.1, hard_weight=0.5))


def test_a_student_on_its_own_answers_has_no_options_of_a_reward():
    of_a_reward = {"reward", "reference", "kl", "clip_low", "entropy_coef"}
    known = set(DistillOnlineConfig.model_fields)
    assert of_a_reward < set(OnlineConfig.model_fields) and not of_a_reward & known
    assert {"teacher", "divergence", "response_len", "yardsticks"} <= known


def test_each_field_is_described():
    for kind in (DivergenceConfig, DistillConfig, DistillOnlineConfig):
        assert all(field.description for field in kind.model_fields.values())
