from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.grpo import GrpoConfig
from llmstack.config.load import load_recipe

GROUP = {"samples_per_prompt": 1}


@pytest.fixture(scope="module")
def policy():
    return load_recipe("grpo_arithmetic").resolved["stages"]["policy"]


def test_the_resolved_stage_decodes_as_itself(policy):
    assert GrpoConfig.model_validate(policy).model_dump(mode="json", by_alias=True) == policy


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (GROUP, "at least 2 because the advantage grpo compares the answers to one prompt, got 1. Raise it"),
        (GROUP | {"advantage": {"kind": "rloo"}}, "the advantage rloo compares"),
        (GROUP | {"advantage": {"kind": "reinforce_pp", "baseline": "group"}}, "the advantage reinforce_pp compares"),
        (
            GROUP | {"advantage": {"kind": "reinforce_pp"}, "dynamic_sampling": {"max_refills": 1}},
            "dynamic_sampling compares",
        ),
        ({"overlong": {"buffer": 99}}, r"a buffer of at most response_len \(\d+\), got 99"),
        ({"advantage": {"kind": "grp"}}, "an advantage .*grpo.*Did you mean `grpo`"),
        ({"advantage": {"kind": "rloo", "ddof": 1}}, "ddof"),
        ({"aggregation": "token_sum"}, "a loss aggregation .*token_mean"),
        ({"importance_cap": 0.0}, "importance_cap"),
        ({"clip_low": 1.0}, "clip_low"),
        ({"accumulate": 7}, r"a divisor of the rows of a minibatch \(\d+\), got 7"),
    ],
)
def test_options_that_clash_are_refused(policy, change, words):
    with pytest.raises(ValidationError, match=words):
        GrpoConfig.model_validate({**policy, **change})


@pytest.mark.parametrize(
    ("change", "found"),
    [({"beta": 0.1}, "beta: 0.1"), ({"mode": "adaptive", "target": 1.0, "horizon": 9}, "mode: adaptive")],
)
def test_kl_in_the_reward_is_not_for_grpo(policy, change, found):
    """Of a group of equal scores the KL would be all the spread there is, and be blown up to 1."""
    kl = {**policy["kl"], **change}
    with pytest.raises(ValidationError, match=f"mode fixed and beta 0 because the advantage grpo .* got {found}"):
        GrpoConfig.model_validate({**policy, "kl": kl})
    for kind in ("rloo", "dr_grpo", "reinforce_pp"):
        made = GrpoConfig.model_validate({**policy, "kl": kl, "advantage": {"kind": kind}})
        assert made.kl.mode == kl["mode"]


def test_one_answer_a_prompt_is_enough_for_reinforce_pp(policy):
    made = GrpoConfig.model_validate({**policy, **GROUP, "advantage": {"kind": "reinforce_pp"}})
    assert made.loader_rows == made.batch_rows


def test_dynamic_sampling_makes_steps_unlike(policy):
    assert GrpoConfig.model_validate(policy).steps_are_alike
    assert not GrpoConfig.model_validate({**policy, "dynamic_sampling": {"max_refills": 2}}).steps_are_alike
