from __future__ import annotations

import pytest
from pydantic import ValidationError

from llmstack.config.load import load_recipe
from llmstack.config.preference import KtoConfig, OrpoConfig, PreferenceConfig, SigmoidConfig, SimpoConfig
from llmstack.errors import ConfigError
from llmstack.registry import PREFERENCE_LOSSES

RECIPE = "dpo_quickstart"


@pytest.fixture(scope="module")
def policy():
    return load_recipe(RECIPE).resolved["stages"]["policy"]


def refused(*overrides):
    with pytest.raises(ConfigError) as error:
        load_recipe(RECIPE, list(overrides))
    return str(error.value)


def test_the_resolved_stage_decodes_as_itself(policy):
    assert PreferenceConfig.model_validate(policy).model_dump(mode="json", by_alias=True) == policy


def test_each_loss_has_its_own_options(policy):
    for name, kind in (("sigmoid", SigmoidConfig), ("orpo", OrpoConfig), ("simpo", SimpoConfig), ("kto", KtoConfig)):
        loss = PreferenceConfig.model_validate({**policy, "loss": {"name": name}}).loss
        assert type(loss) is kind
    assert all(
        field.description for name in PREFERENCE_LOSSES.names()
        for field in PREFERENCE_LOSSES.config(name).model_fields.values()
    )  # fmt: skip


def test_the_reference_is_where_the_policy_starts_unless_another_is_named(policy):
    made = PreferenceConfig.model_validate(policy)
    assert (made.reference_source, made.longest_row, made.step_rows) == ("sft", 96, 16)
    assert PreferenceConfig.model_validate({**policy, "reference": "base"}).reference_source == "base"
    assert PreferenceConfig.model_validate({**policy, "loss": {"name": "simpo"}}).reference_source is None


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["stages.policy.loss={name: simpo, label_smoothing: 0.1}"], "stages.policy.loss.label_smoothing"),
        (["stages.policy.loss={name: sigmoid, reference_free: true}"], "stages.policy.loss.reference_free"),
        (["stages.policy.loss.name=orpo"], "stages.policy.loss.beta"),
        (["stages.policy.loss={name: dpo}"], "expected a preference loss (hinge, ipo, kto, orpo, robust, sigmoid"),
        (["stages.policy.loss={name: robust}"], "stages.policy.loss.label_smoothing"),
        (["stages.policy.loss.beta=0"], "stages.policy.loss.beta"),
        (["+stages.policy.loss.label_smoothing=0.5"], "stages.policy.loss.label_smoothing"),
        (["stages.policy.init_from=null"], "expected a model to start from, got nothing"),
        (["stages.policy.init_from=sfd"], "stages.policy.init_from: expected an earlier stage"),
        (["+stages.policy.reference=nobody"], "stages.policy.reference: expected an earlier stage"),
        (
            ["stages.policy.loss={name: orpo}", "~stages.policy.loss.beta", "+stages.policy.reference=sft"],
            "expected nothing because loss orpo has no reference, got 'sft'",
        ),
        (["stages.policy.samples.prompts=0"], "stages.policy.samples.prompts: expected some because"),
        (["stages.policy.yardsticks={margin: {kind: pep257_style}}"], "expected names of your own, got ['margin']"),
        (["stages.policy.length_buckets=[96,48]"], "Write [48, 96]"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options_are_one_message_each(overrides, words):
    message = refused(*overrides)
    assert words in message
    assert message.count("expected") == 1, message


def test_a_reference_below_an_adapter_that_is_started_from_must_be_named(policy, tmp_path):
    lora = {"rank": 2, "alpha": 4.0, "dropout": 0.0, "target_modules": ["q_proj"], "adapter": str(tmp_path)}
    with pytest.raises(ValidationError, match=r"`lora.adapter` changes the one of `init_from`"):
        PreferenceConfig.model_validate({**policy, "lora": lora})
    assert PreferenceConfig.model_validate({**policy, "lora": {**lora, "adapter": None}}).reference_source == "sft"
