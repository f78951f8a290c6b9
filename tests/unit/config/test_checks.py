from __future__ import annotations

from pathlib import Path

import pytest

from llmstack.config.load import load_recipe
from llmstack.errors import ConfigError
from tests.unit.config.conftest import SHORT, assert_refused

POLICY = "stages.policy"


LORA = "{rank: 4, alpha: 8.0, dropout: 0.0, target_modules: [all-linear]}"
CLASHES = [
    ("stages.base.init_from=policy", "stages.base.init_from", "got 'policy', a later stage"),
    ("stages.sft.init_from=sft", "stages.sft.init_from", "got 'sft', this stage itself"),
    ("stages.sft.init_from=bas", "stages.sft.init_from", "Did you mean `base`?"),
    ("stages.base.init_from=nowhere", "stages.base.init_from", "(there is none) or a model folder, got 'nowhere'"),
    ("stages.policy.init_from=rm", "stages.policy.init_from", "got 'rm', a stage that makes a reward model"),
    ("stages.policy.reference=rm", "stages.policy.reference", "an earlier stage that makes a language model"),
    (
        "stages.policy.reward.from=sft",
        "stages.policy.reward.from",
        "got 'sft', a stage that makes a language model",
    ),
    ("stages.policy.reward.from=rmm", "stages.policy.reward.from", "Did you mean `rm`?"),
    ("stages.policy.critic.init_from=policy", "stages.policy.critic.init_from", "this stage itself"),
    (
        "stages.policy.yardsticks.other={kind: model, from: base}",
        "stages.policy.yardsticks.other.from",
        "a stage that makes a language model",
    ),
    ("model.vocab_size=2000", "model.vocab_size", "expected at least tokenizer.vocab_size (2048), got 2000"),
    ("stages.base.model={vocab_size: 2000}", "stages.base.model.vocab_size", "vocab_size (2048), got 2000"),
    ("stages.sft.model={num_hidden_layers: 1}", "stages.sft.model", "beside `init_from: base`, whose model has its"),
    ("stages.rm.seq_len=257", "stages.rm.seq_len", "at most model.max_position_embeddings (256), got 257"),
    ("stages.policy.response_len=201", "stages.policy.response_len", "(256), got 56 + 201"),
    ("stages.policy.minibatches=3", "stages.policy.minibatches", "a divisor of batch_rows (128), got 3"),
    ("stages.policy.prompt_buckets=[96,64]", "stages.policy.prompt_buckets", "Write [64, 96]."),
    ("stages.policy.prompt_buckets=[64,64]", "stages.policy.prompt_buckets", "Write [64]."),
    ("stages.policy.prompt_buckets=[0,64]", "stages.policy.prompt_buckets.0", "a number greater than 0"),
    ("stages.policy.kl.target=1.0", "stages.policy.kl.target", "because `mode` is fixed, got 1.0"),
    ("stages.policy.kl.horizon=10", "stages.policy.kl.horizon", "because `mode` is fixed, got 10"),
    ("stages.policy.truncated=penalty", "stages.policy.missing_eos_score", "because `truncated` is penalty"),
    ("stages.policy.missing_eos_score=-1.0", "stages.policy.missing_eos_score", "`truncated` is bootstrap, got -1"),
    ("optim.schedule.name=wsd", "optim.schedule.decay_ratio", "because the schedule is wsd, got nothing"),
    ("optim.schedule.decay_ratio=0.2", "optim.schedule.decay_ratio", "the schedule is cosine, got 0.2"),
    ("optim.schedule.name=constant", "optim.schedule.final_ratio", "expected 1 because the schedule is constant"),
    ("tokenizer.path=.", "tokenizer.path", "because `kind` is bpe, got a value"),
    ("tokenizer.data=null", "tokenizer.data", "because `kind` is bpe, got nothing"),
    ("tokenizer.chat_template=my.jinja", "tokenizer.chat_template", "expected 'chatml' or an existing file"),
    ("model.num_key_value_heads=3", "model.num_key_value_heads", r"a divisor of num_attention_heads (4), got 3"),
]


def section(key: str) -> str:
    """A class compares its own values when each of them is right, so one case a class and round."""
    parts = key.split(".")
    return "stages" if parts[0] == "optim" else ".".join(parts[: 2 if parts[0] == "stages" else 1])


@pytest.mark.parametrize("case", CLASHES, ids=lambda case: f"{case[0]}: {case[1]}")
def test_values_that_do_not_fit_together(case):
    assert_refused(case, CLASHES, section)


def test_adaptive_kl_needs_target_and_horizon(problems_in):
    assert set(problems_in("quickstart", "stages.policy.kl.mode=adaptive")) == {
        "stages.policy.kl.target",
        "stages.policy.kl.horizon",
    }


def test_rows_are_as_long_as_the_context_of_the_stage_a_model_began_in(problems_in):
    small = "stages.base.model={max_position_embeddings: 100}"
    found = problems_in("quickstart", small, "stages.base.seq_len=100")
    assert set(found) == {"stages.sft.seq_len"}
    assert "at most stages.base.model.max_position_embeddings (100), got 128" in found["stages.sft.seq_len"].message


def test_a_folder_tokenizer_needs_a_path_and_nothing_to_train_on(problems_in):
    assert set(problems_in("quickstart", "tokenizer.kind=folder")) == {
        "tokenizer.path",
        "tokenizer.vocab_size",
        "tokenizer.data",
    }


def test_checks_go_on_where_decoding_failed(problems_in):
    found = problems_in(
        "quickstart",
        "stages.policy.kl.betta=1",
        "stages.policy.reward.from=sft",
        "stages.rm.seq_len=999",
        "model.vocab_size=300",
        "optim.lr=x",
        "tokenizer.kind=bp",
        "parallel.mode=double",
    )
    assert set(found) == {
        "stages.policy.kl.betta",
        "stages.policy.reward.from",
        "stages.rm.seq_len",
        "model.vocab_size",
        "optim.lr",
        "tokenizer.kind",
        "parallel.mode",
    }


def test_files_and_folders_must_be_there(write, problems_in):
    write("text", "corpus/a.txt")
    text = SHORT.replace("data: {source: stdlib_docs, split: train}", "data: {source: text, path: 'corpus/*.txt'}")
    recipe = write(text)
    assert load_recipe(recipe).config.stages["base"].data.path == "corpus/*.txt"
    found = problems_in(
        recipe,
        "stages.base.data.path=corpus/*.md",
        "++tokenizer={kind: folder, path: tok, vocab_size: null, data: null}",
    )
    assert "an existing file or a glob that matches some, got 'corpus/*.md'" in found["stages.base.data.path"].message
    assert "expected an existing folder, got 'tok'" in found["tokenizer.path"].message


def test_what_sources_inside_sources_name_must_be_there(write, problems_in):
    write("x", "a.txt")
    write("x", "tokens.bin")
    write("def rows():\n    yield {}\n", "my_rows.py")
    sources = {
        "one": "{source: text, path: a.txt}",
        "two": "{source: callable, function: 'my_rows:rows', record: text}",
    }
    of = ", ".join(f"{name}: {options}" for name, options in sources.items())
    whole = "{source: stdlib_docs, split: train}\n    eval"
    text = SHORT.replace(whole, f"{{source: concat, of: {{{of}}}}}\n    eval")
    recipe = write("plugins: [my_rows]\n" + text)
    loaded = load_recipe(recipe)
    assert list(loaded.config.stages["base"].data.of) == ["one", "two"]
    assert loaded.resolved["stages"]["base"]["data"]["of"]["one"]["path"] == "a.txt"
    found = problems_in(
        recipe,
        "stages.base.data.of.one.path=b.txt",
        "stages.base.data.of.two.function='my_rows:row'",
        "+stages.base.data.of.three={source: megatron, path: tokens}",
        "+stages.base.data.of.four={source: hf_dataset, path: nowhere, record: text}",
    )
    at = "stages.base.data.of"
    assert {path: problem.message.partition(", got")[0] for path, problem in found.items()} == {
        f"{at}.one.path": "expected an existing file or a glob that matches some",
        f"{at}.two.function": "my_rows:row: expected a function 'row' in my_rows",
        f"{at}.three.path": "expected the beginning of the names of a .bin and an .idx file (there is no tokens.idx)",
        f"{at}.four.path": "expected an existing folder",
    }


def test_a_model_folder_can_be_named_instead_of_a_stage(write, problems_in):
    recipe = write()
    Path("empty").mkdir()
    assert (
        "a folder without config.json"
        in problems_in(recipe, "stages.sft.init_from=empty")["stages.sft.init_from"].message
    )
    write("{}", "model/config.json")
    assert load_recipe(recipe, ["stages.sft.init_from=./model"]).config.stages["sft"].init_from == "./model"


def test_a_critic_may_start_from_a_reward_model(problems_in):
    assert load_recipe("quickstart", [f"{POLICY}.critic.init_from=rm"]).config.stages["policy"].critic.init_from == "rm"


def test_an_open_vocabulary_takes_the_tokenizers():
    assert load_recipe("quickstart", ["model.vocab_size=null"]).resolved["model"]["vocab_size"] is None


@pytest.mark.parametrize("provider", ["native", "mindformers"])
def test_adapters_are_put_on_our_own_network_alone(provider):
    overrides = [f"model.provider={provider}", f"+stages.sft.lora={LORA}"]
    if provider == "native":
        assert load_recipe("quickstart", overrides).config.stages["sft"].lora.rank == 4
    else:
        with pytest.raises(ConfigError, match="stages.sft.lora: expected null because model.provider is mindformers"):
            load_recipe("quickstart", overrides)


def lora_problems(*overrides):
    with pytest.raises(ConfigError) as refused:
        load_recipe("quickstart", overrides)
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("stage", "options", "words"),
    [
        ("sft", LORA.replace("4", "0", 1), "lora.rank: expected a number greater than 0, got 0. Raise it."),
        (
            "sft",
            LORA.replace("[all-linear]", "q_proj"),
            "lora.target_modules: expected a list, got 'q_proj'. Write [q_",
        ),
        ("base", LORA, "lora: expected `init_from` with it, got adapters on random weights. Name a model there."),
        ("policy", LORA.replace("0.0", "0.1"), "lora: expected dropout 0 here, got 0.1"),
        ("sft", LORA.replace("}", ", adapter: nowhere}"), "lora.adapter: expected an existing folder, got 'nowhere'"),
    ],
)
def test_options_of_adapters_that_cannot_be(stage, options, words):
    (problem,) = lora_problems(f"+stages.{stage}.lora={options}")
    assert problem.startswith(f"stages.{stage}.{words}") and problem.endswith("(command line)")


def test_a_group_of_adapters_that_is_not_there():
    (problem,) = lora_problems("+lora@stages.sft=nope")
    assert problem.startswith("lora@stages.sft: expected an option of `lora` (dialogue, domain, preference, ")


MODEL_FOLDER = """\
defaults: [/optim: adamw, /parallel: single, /stage@stages.base: pretrain, _self_]
name: mine
seed: 1
model: {from: FOLDER}
stages: {base: {data: {source: stdlib}, eval_data: {source: stdlib}, budget: 1 step}}
"""


@pytest.mark.parametrize(
    ("model", "path", "words"),
    [
        ("{from: nowhere}", "model.from", "expected an existing folder, got 'nowhere'"),
        ("{from: .}", "model.from", "expected a model folder, got '.', one without config.json. Name the folder that"),
        ("{from: ., hidden_size: 3}", "model.hidden_size", "expected a known key (from, provider), got 'hidden_size'"),
    ],
)
def test_a_model_from_a_folder_that_cannot_be(tmp_path, monkeypatch, model, path, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.yaml").write_text(MODEL_FOLDER.replace("{from: FOLDER}", model))
    with pytest.raises(ConfigError) as refused:
        load_recipe("r.yaml")
    found = {problem.path: problem.message for problem in refused.value.problems}
    assert found[path].startswith(words)
    assert set(found) <= {"model.from", path, *(key for key in found if "data" in key)}


def test_rows_may_be_as_long_as_the_context_of_the_folder_a_stage_starts_from(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    overrides = [f"stages.sft.init_from={tmp_path}", "stages.sft.seq_len=300", "stages.rm.seq_len=300"]
    assert load_recipe("quickstart", overrides).config.stages["sft"].longest_row == 300
    (problem,) = lora_problems(*overrides, "stages.rm.init_from=base")
    assert problem.startswith("stages.rm.seq_len: expected at most model.max_position_embeddings (256), got 300")
