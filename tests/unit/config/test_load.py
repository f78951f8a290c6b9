from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from llmstack.config.load import load_recipe
from llmstack.config.quantity import Quantity
from llmstack.errors import ConfigError
from tests.unit.config.conftest import SHORT, assert_refused


def line_of(text: str, fragment: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if fragment in line)


def test_the_shipped_recipe_has_four_stages_in_order():
    config = load_recipe("quickstart").config
    assert {name: stage.kind for name, stage in config.stages.items()} == {
        "base": "pretrain",
        "sft": "sft",
        "rm": "reward",
        "policy": "ppo",
    }
    assert config.run_dir == "runs/quickstart"


def test_a_command_line_value_wins_and_may_set_a_key_no_file_mentions():
    loaded = load_recipe(
        "quickstart", ["stages.policy.kl.beta=0.1", "stages.policy.dual_clip=3.0", "+optim.schedule.decay_ratio=null"]
    )
    policy = loaded.config.stages["policy"]
    assert policy.kl.beta == 0.1
    assert policy.dual_clip == 3.0
    assert loaded.origins["stages.policy.kl.beta"] == "command line"
    assert loaded.origins["stages.policy.dual_clip"] == "command line"


def test_a_stage_inherits_the_recipe_optimizer_key_by_key(write):
    recipe = write(SHORT + "    optim: {lr: 2.0e-4, schedule: {warmup: 5 steps}}\n")
    loaded = load_recipe(recipe, ["optim.weight_decay=0.3"])
    optim = loaded.config.stages["sft"].optim
    assert (optim.lr, optim.weight_decay, optim.betas) == (2e-4, 0.3, (0.9, 0.95))
    assert (optim.schedule.warmup, optim.schedule.name) == (Quantity(5, "steps"), "cosine")
    assert loaded.config.optim.lr == 1e-3
    assert loaded.origins["stages.sft.optim.lr"] == f"mine.yaml:{line_of(SHORT, 'budget: 2 epochs') + 1}"
    assert loaded.origins["stages.sft.optim.weight_decay"] == "inherited from optim.weight_decay"
    assert loaded.origins["stages.sft.optim.schedule.name"] == "inherited from optim.schedule.name"


def test_a_stage_with_a_model_of_its_own_inherits_the_rest_of_the_recipes(write):
    recipe = write(SHORT.replace("    budget: 2M tokens", "    budget: 2M tokens\n    model: {num_hidden_layers: 1}"))
    loaded = load_recipe(recipe, ["model.hidden_size=128"])
    own, shared = loaded.config.stages["base"].model, loaded.config.model
    assert own == shared.model_copy(update={"num_hidden_layers": 1}) and own.hidden_size == 128
    assert loaded.config.stages["sft"].model is None
    assert loaded.origins["stages.base.model.hidden_size"] == "inherited from model.hidden_size"


def test_a_mistake_in_the_shared_model_is_reported_once(write, problems_in):
    recipe = write(SHORT.replace("    budget: 2M tokens", "    budget: 2M tokens\n    model: {num_hidden_layers: 1}"))
    assert set(problems_in(recipe, "model.rope_theta=-1", "stages.base.model.head_dim=3")) == {
        "model.rope_theta",
        "stages.base.model.head_dim",
    }


def test_each_leaf_of_the_resolved_recipe_has_an_origin(write):
    loaded = load_recipe(write(), ["optim.betas=[0.8,0.9]"])
    assert loaded.origins["seed"] == f"mine.yaml:{line_of(SHORT, 'seed:')}"
    assert loaded.origins["stages.base.budget"] == f"mine.yaml:{line_of(SHORT, '2M tokens')}"
    assert loaded.origins["model.hidden_size"].rpartition(":")[0].endswith("configs/model/tiny_llama.yaml")
    assert loaded.origins["stages.base.accumulate"] == "default"
    assert loaded.origins["optim.betas.1"] == "command line"
    assert all(loaded.origins.values())


def test_the_resolved_recipe_is_json_and_loads_as_the_same_recipe(write):
    loaded = load_recipe("quickstart", ["stages.sft.budget=1.5 epochs"])
    assert json.loads(json.dumps(loaded.resolved)) == loaded.resolved
    again = load_recipe(write(yaml.safe_dump(loaded.resolved, sort_keys=False), "resolved.yaml"))
    assert again.config == loaded.config
    assert again.resolved == loaded.resolved
    assert list(again.config.stages) == list(loaded.config.stages)


def test_loading_writes_nothing(write):
    recipe = write()
    load_recipe(recipe)
    assert os.listdir() == ["mine.yaml"]


def test_two_problems_are_reported_together(write, problems_in):
    recipe = write(SHORT.replace("init_from: base", "init_from: bse").replace("seed: 1", "seeed: 1"))
    found = problems_in(recipe)
    assert set(found) == {"seed", "seeed", "stages.sft.init_from"}
    assert "Did you mean `seed`?" in found["seeed"].message
    assert found["seeed"].where == f"mine.yaml:{line_of(SHORT, 'seed:')}"
    assert "Did you mean `base`?" in found["stages.sft.init_from"].message


def reach(key: str) -> str:
    """How far a wrong value disturbs others: a name that picks a class hides what is beside it."""
    parent, _, last = key.rpartition(".")
    return parent if last in ("kind", "source") else key


TYPOS = [
    ("sed=1", "sed", "Did you mean `seed`?"),
    ("model.hiden_size=8", "model.hiden_size", "Did you mean `hidden_size`?"),
    ("optim.schedule.warm_up=1 step", "optim.schedule.warm_up", "Did you mean `warmup`?"),
    ("tokenizer.data.slit=train", "tokenizer.data.slit", "Did you mean `split`?"),
    ("stages.base.bugdet=1 step", "stages.base.bugdet", "Did you mean `budget`?"),
    ("stages.base.samples.prompt=1", "stages.base.samples.prompt", "Did you mean `prompts`?"),
    ("stages.base.data.limt=3", "stages.base.data.limt", "Did you mean `limit`?"),
    ("stages.base.optim.lrr=3", "stages.base.optim.lrr", "Did you mean `lr`?"),
    ("stages.policy.kl.betta=3", "stages.policy.kl.betta", "Did you mean `beta`?"),
    ("stages.policy.reward.frm=rm", "stages.policy.reward.frm", "Did you mean `from`?"),
    ("stages.policy.critic.lrr=1", "stages.policy.critic.lrr", "Did you mean `lr`?"),
    ("stages.polcy.kl.beta=0.1", "stages.polcy", "Did you mean `policy`?"),
    (
        "stages.policy.yardsticks.style_rate.knd=x",
        "stages.policy.yardsticks.style_rate.knd",
        "Did you mean `kind`?",
    ),
]

WRONG_VALUES = [
    ("seed=one", "seed", "expected a whole number, got 'one'"),
    ("seed=true", "seed", "expected a whole number, got True"),
    ("seed=-1", "seed", "expected a number of at least 0, got -1"),
    ("name='a b'", "name", "expected a text that matches"),
    ("model.hidden_size=64.5", "model.hidden_size", "expected a whole number, got 64.5"),
    ("model.head_dim=47", "model.head_dim", "expected a multiple of 2, got 47"),
    ("model.family=lama", "model.family", "Did you mean `llama`?"),
    ("model.tie_word_embeddings=1", "model.tie_word_embeddings", "expected true or false, got 1"),
    ("optim.lr=inf", "optim.lr", "expected a finite number, got inf"),
    ("optim.betas=[0.9]", "optim.betas.1", "expected a value"),
    ("optim.betas=[0.9,1.0]", "optim.betas.1", "expected a number less than 1, got 1.0"),
    ("optim.schedule.name=cosin", "optim.schedule.name", "Did you mean `cosine`?"),
    ("optim.schedule.final_ratio=2", "optim.schedule.final_ratio", "expected a number of at most 1, got 2"),
    ("parallel.device=gpu", "parallel.device", "expected 'cpu' or 'ascend', got 'gpu'"),
    ("tokenizer.kind=bp", "tokenizer.kind", "Did you mean `bpe`?"),
    ("tokenizer.vocab_size=100", "tokenizer.vocab_size", "expected a number of at least 262, got 100"),
    ("stages.base.kind=pretran", "stages.base.kind", "Did you mean `pretrain`?"),
    ("stages.base.data.source=stdlib_doc", "stages.base.data.source", "Did you mean `stdlib_docs`?"),
    ("stages.base.data.split=test", "stages.base.data.split", "expected 'train', 'policy' or 'eval', got 'test'"),
    ("++stages.base.data=docs", "stages.base.data", "expected a mapping with the key `source`, got 'docs'"),
    ("stages.base.budget=100", "stages.base.budget", "Write a unit: `100 steps`."),
    ("stages.base.budget=-5 steps", "stages.base.budget", "Write more than 0."),
    ("stages.base.log_every=2 epochs", "stages.base.log_every", "`epochs` does not fit here"),
    ("stages.policy.reward.kind=modle", "stages.policy.reward.kind", "Did you mean `model`?"),
    ("stages.policy.prompt_buckets=[]", "stages.policy.prompt_buckets", "expected 1 or more entries"),
    ("stages.policy.prompt_buckets=64", "stages.policy.prompt_buckets", "expected a list, got 64"),
    ("++stages.policy.kl=null", "stages.policy.kl", "expected a mapping, got None"),
    ("plugins=[1]", "plugins.0", "expected a text, got 1"),
]


@pytest.mark.parametrize("case", TYPOS, ids=lambda case: case[0])
def test_a_typo_in_any_key_names_the_nearest(case):
    assert assert_refused(case, TYPOS, reach).where == "command line"


@pytest.mark.parametrize("case", WRONG_VALUES, ids=lambda case: case[0])
def test_a_wrong_value_says_what_was_expected(case):
    assert assert_refused(case, WRONG_VALUES, reach).where == "command line"


def test_a_missing_key_says_what_to_add_and_where(write, problems_in):
    found = problems_in(write(SHORT.replace("    budget: 2 epochs\n", "")))
    assert set(found) == {"stages.sft.budget"}
    assert "Add `budget:`" in found["stages.sft.budget"].message
    assert found["stages.sft.budget"].where == f"mine.yaml:{line_of(SHORT, '  sft:')}"


def test_a_key_missing_at_the_top_points_at_the_recipe(write, problems_in):
    found = problems_in(write(SHORT.replace("seed: 1\n", "")), "~name")
    assert (found["seed"].where, found["name"].where) == ("mine.yaml", "command line")


def test_a_required_value_that_is_left_open_is_missing(write, problems_in):
    assert set(problems_in(write(SHORT.replace("seed: 1", "seed: ???")))) == {"seed"}


def test_what_a_recipe_leaves_to_the_command_line_is_named_once_and_in_full(problems_in):
    paths = [f"{data}.of.{part}.path" for data in ("tokenizer.data", "stages.base.eval_data")
             for part in ("general", "domain")]  # fmt: skip
    found = problems_in("blend_anneal")
    # the stage's own parts refer to the tokenizer's
    assert set(found) == set(paths)
    for path in paths:
        assert found[path].message.endswith(f"got nothing. The recipe leaves it to you: pass {path}=VALUE.")
    assert set(problems_in("blend_anneal", f"{paths[0]}={__file__}")) == set(paths[1:])


def test_a_mistake_in_the_shared_optimizer_is_reported_once(problems_in):
    assert set(problems_in("quickstart", "optim.lr=-1", "optim.momentum=0.9", "~optim.eps")) == {
        "optim.lr",
        "optim.momentum",
        "optim.eps",
    }


def test_a_stage_without_kind_lists_the_kinds(write, problems_in):
    found = problems_in(write(SHORT.replace("  - /stage@stages.sft: sft\n", "")))
    assert (
        "expected a stage kind (distill, distill_online, grpo, ppo, preference, pretrain, reward, sft), got nothing"
        in found["stages.sft.kind"].message
    )


def test_a_stage_that_is_empty_is_refused(write, problems_in):
    assert "expected a mapping" in problems_in(write(SHORT + "  more:\n"))["stages.more"].message


def test_no_stage_at_all_is_refused(problems_in):
    assert set(problems_in("quickstart", "~stages")) == {"stages"}


def test_a_failing_interpolation_names_its_key(write, problems_in):
    found = problems_in(write(SHORT.replace("seed: 1", "seed: ${nothing}")))
    assert "Interpolation key 'nothing' not found" in found["seed"].message
    assert found["seed"].where == f"mine.yaml:{line_of(SHORT, 'seed:')}"


def test_an_interpolated_mapping_keeps_its_origin(write):
    text = SHORT.replace("eval_data: {source: stdlib_summaries, split: eval}", "eval_data: ${stages.base.eval_data}")
    loaded = load_recipe(write(text))
    assert loaded.origins["stages.sft.eval_data.split"] == f"mine.yaml:{line_of(text, '${stages')}"


def test_a_plugin_beside_the_recipe_adds_a_stage(write):
    write(
        "from llmstack.config.stages import SftConfig\n"
        "from llmstack.registry import STAGES\n"
        "class EchoConfig(SftConfig):\n"
        "    echo: int\n"
        "    '''How often.'''\n"
        "@STAGES.register('load_test_echo', config=EchoConfig)\n"
        "class Echo:\n"
        "    '''Echoes.'''\n",
        "load_test_plugin.py",
    )
    text = SHORT.replace("stages:\n", "plugins: [load_test_plugin]\nstages:\n", 1)
    recipe = write(text + "    kind: load_test_echo\n    echo: 3\n")
    assert load_recipe(recipe).config.stages["sft"].echo == 3


def test_a_plugin_that_cannot_be_imported_is_named_with_its_line(write, problems_in):
    text = SHORT.replace("stages:\n", "plugins: [no_such_plugin]\nstages:\n", 1)
    found = problems_in(write(text), "optim.lr=0")
    assert set(found) == {"plugins.0", "optim.lr"}
    assert "'no_such_plugin'" in found["plugins.0"].message
    assert found["plugins.0"].where == f"mine.yaml:{line_of(text, 'plugins')}"


def test_the_path_is_that_of_the_recipe(write):
    assert load_recipe(write()).path == Path("mine.yaml").resolve()


def test_a_models_folder_brings_tokenizer_and_first_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "config.json").write_text("{}")
    (tmp_path / "rows.jsonl").write_text("{}\n")
    paths = [f"stages.sft.{data}.path=rows.jsonl" for data in ("data", "eval_data")]
    loaded = load_recipe("smollm2_gsm8k", ["model.from=lm", *paths])
    assert loaded.config.stages["sft"].init_from == "lm" and loaded.config.tokenizer.path == "lm"
    assert loaded.origins["stages.sft.init_from"] == "inherited from model.from"
    with pytest.raises(ConfigError) as error:
        load_recipe("smollm2_gsm8k", paths)
    # what was taken over from the missing folder is no problem of its own
    assert [problem.path for problem in error.value.problems] == ["model.from"]
