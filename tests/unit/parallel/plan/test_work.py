from __future__ import annotations

import pytest

from llmstack.config.load import load_recipe
from llmstack.parallel.plan.work import Pass, work_of
from tests.helpers.plans import small

SIZES = {"batch_rows": 64, "minibatches": 4, "epochs": 2, "response_len": 32, "prompt_buckets": [56]}
"""Of the quickstart's policy, whatever it is given for speed."""


def work(recipe, name, *overrides, **options):
    pinned = (
        [f"stages.policy.{key}={value}" for key, value in SIZES.items()]
        if (recipe, name) == ("quickstart", "policy")
        else []
    )
    stage = load_recipe(recipe, [*pinned, *overrides]).config.stages[name]
    return work_of(name, stage.model_copy(update=options), lambda source: small())


def shape(each: Pass):
    return (each.network.role, each.train, each.rows, each.tokens, each.targets, each.calls, each.joined)


def test_a_language_stage_trains_one_model_on_its_rows():
    found = work("quickstart", "base", "stages.base.accumulate=4")
    assert [shape(each) for each in found.passes] == [("model", True, 8, 256, 256, 4, False)]
    assert (found.tokens, found.updates, found.accumulates) == (8 * 256 * 4, 1, True)
    (samples,) = found.rollouts
    assert (samples.rows, samples.response, samples.every_step) == (4, 48, False)
    assert found.flops.total == found.passes[0].flops.total


def test_a_reward_model_reads_two_answers_a_pair_and_scores_their_ends():
    found = work("quickstart", "rm")
    assert [shape(each) for each in found.passes] == [("model", True, 32, 96, 1, 1, False)]
    assert found.networks[0].head == "scalar" and found.rollouts == ()


def test_ppo_has_four_networks_and_reads_with_all_of_them():
    found = work("quickstart", "policy")
    assert [network.role for network in found.networks] == ["policy", "critic", "reference", "reward"]
    assert [shape(each) for each in found.passes] == [
        ("policy", False, 64, 88, 32, 1, False),
        ("critic", False, 64, 88, 33, 1, False),
        ("reference", False, 64, 88, 32, 1, False),
        ("reward", False, 64, 88, 1, 1, False),
        ("policy", True, 16, 88, 32, 8, False),
        ("critic", True, 16, 88, 32, 8, False),
    ]
    assert found.updates == 16
    (rollout,) = found.rollouts
    assert (rollout.rows, rollout.prompts, rollout.response, rollout.every_step) == (64, (56,), 32, True)
    assert found.flops.total == pytest.approx(sum(each.flops.total for each in found.passes) + rollout.flops.total)


def test_a_shared_trunk_leaves_out_the_critic():
    found = work("quickstart", "policy", "stages.policy.critic={trunk: shared}", "~stages.policy.critic.init_from",
                 "~stages.policy.critic.lr")  # fmt: skip
    assert [(network.role, network.head) for network in found.networks] == [
        ("policy", "both"), ("reference", "language"), ("reward", "scalar"),
    ]  # fmt: skip
    assert [shape(each) for each in found.passes if each.train] == [("policy", True, 16, 88, 33, 8, False)]
    assert found.updates == 8


def test_a_reference_under_adapters_takes_no_room():
    found = work("quickstart", "policy", "+lora@stages.policy=rl")
    assert [network.shared for network in found.networks] == [False, False, True, False]
    assert [network.lora is not None for network in found.networks] == [True, True, False, False]


def test_text_that_is_mixed_in_is_in_the_graph_of_the_policy():
    text = "{data: {source: stdlib_docs, split: train}, coef: 1.0, seq_len: 64, batch_rows: 4}"
    found = work("quickstart", "policy", f"+stages.policy.pretraining={text}")
    assert [shape(each) for each in found.passes if each.train][:2] == [
        ("policy", True, 16, 88, 32, 8, False),
        ("policy", True, 4, 64, 64, 8, True),
    ]


def test_reward_models_inside_a_sum_and_yardsticks_are_held():
    part = "{weight: 1.0, reward: {kind: model, from: rm}}"
    found = work(
        "quickstart", "policy",
        f"++stages.policy.reward={{kind: combine, of: {{a: {part}, b: {part}}}}}", "~stages.policy.reward.from",
        "+stages.policy.yardsticks.again={kind: model, from: rm}",
    )  # fmt: skip
    assert [network.role for network in found.networks][2:] == ["reference", "reward", "reward", "yardstick"]
    assert sum(each.network.role == "yardstick" for each in found.passes) == 0


def test_preference_and_distillation():
    name, stage = next(iter(load_recipe("dpo_quickstart").config.stages.items()))
    found = work("dpo_quickstart", next(n for n, s in load_recipe("dpo_quickstart").config.stages.items()
                                        if s.kind == "preference"))  # fmt: skip
    assert found.passes[0].rows == 2 * load_recipe("dpo_quickstart").config.stages[found.name].batch_rows
    assert "reference is read before the first step" in found.notes[0]
    stages = load_recipe("distill_quickstart").config.stages
    for name, stage in stages.items():
        if stage.kind.startswith("distill"):
            found = work("distill_quickstart", name)
            assert "teacher" in [network.role for network in found.networks]
            last = found.passes[-1]
            assert (last.network.role, last.train, last.joined) == ("teacher", False, True)


def test_a_stage_of_another_kind_is_planned_as_one_model():
    from llmstack.config.stages import StageConfig

    plain = load_recipe("quickstart").config.stages["base"]
    options = {key: getattr(plain, key) for key in StageConfig.model_fields}
    found = work_of("own", StageConfig.model_construct(**options | {"kind": "own"}), lambda source: small())
    assert "kind own is taken to train one language model" in found.notes[0]
