from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest

from llmstack.errors import UserError
from tests.helpers.stages import causal_folder, tokenizer, write_jsonl
from tests.tolerances import LOGP_MATCH_ATOL
from tests.unit.evaluation.test_likelihood import Target, oracle

MODULE = "llmstack.integrations.lm_eval"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = causal_folder(tmp_path_factory.mktemp("models") / "causal")
    tokenizer().save(path)
    return str(path)


@pytest.fixture(scope="module")
def adapter():
    pytest.importorskip("lm_eval", reason="needs the [lm-eval] extra")
    return importlib.import_module(MODULE)


@pytest.fixture(scope="module")
def lm(adapter, folder):
    return adapter.LlmstackLM(folder, batch_size=4)


def requests(adapter, kind, *arguments):
    return [
        adapter.Instance(request_type=kind, doc={}, arguments=args, idx=index) for index, args in enumerate(arguments)
    ]


def test_without_the_harness_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    for name in [name for name in sys.modules if name.startswith("lm_eval.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(UserError, match=r"lm-eval: expected lm-evaluation-harness 0.4, .*llmstack\[lm-eval\]"):
        importlib.import_module(MODULE)


def test_it_is_registered(adapter):
    from lm_eval.api.registry import get_model

    assert get_model("llmstack") is adapter.LlmstackLM


def test_likelihoods_of_continuations(adapter, lm):
    encode = tokenizer().encode
    pairs = [("red green", " blue"), ("", "white red"), ("black ", "blue")]
    found = lm.loglikelihood(requests(adapter, "loglikelihood", *pairs), disable_tqdm=True)
    for (context, text), (logp, greedy) in zip(pairs, found, strict=True):
        before = encode(context.rstrip()) or [tokenizer().eos_id]
        ids = encode(context + text) if context else [*before, *encode(text)]
        expected, best = oracle(lm._loaded.model, Target(ids, len(before)))
        np.testing.assert_allclose(logp, expected.sum(), rtol=0, atol=LOGP_MATCH_ATOL)
        assert greedy == best.all()


def test_a_long_context_loses_its_beginning(adapter, lm):
    long, short = ("red " * 200, "blue"), ("red " * 80, "blue")
    (one,), (other,) = (lm.loglikelihood(requests(adapter, "loglikelihood", pair), True) for pair in (long, short))
    np.testing.assert_allclose(one[0], other[0], rtol=0, atol=LOGP_MATCH_ATOL)


def test_likelihoods_of_texts_count_each_token_once(adapter, lm):
    """A text of 1.5 contexts: the second window begins where it still is a whole one."""
    ids = (tokenizer().encode("red green blue black white ") * 40)[:96]
    text = tokenizer().decode(ids)
    assert tokenizer().encode(text) == ids
    (found,) = lm.loglikelihood_rolling(requests(adapter, "loglikelihood_rolling", (text,)))
    whole = [tokenizer().eos_id, *ids]
    first = oracle(lm._loaded.model, Target(whole[:65], 1))[0].sum()
    second = oracle(lm._loaded.model, Target(whole[32:97], 33))[0].sum()
    np.testing.assert_allclose(found, first + second, rtol=0, atol=LOGP_MATCH_ATOL)


def test_answers_end_before_stop_texts(adapter, lm):
    free = {"until": [], "max_gen_toks": 8, "do_sample": False, "temperature": 0.0}
    (text,) = lm.generate_until(requests(adapter, "generate_until", ("red", free)))
    stop = text[2:4]
    calls = (("red", free | {"until": [stop, "<|im_end|>"]}), ("red", free), ("red " * 200, free))
    cut, same, _ = lm.generate_until(requests(adapter, "generate_until", *calls))
    assert (cut, same) == (text[: text.index(stop)], text)


def test_sampling_options_of_a_task(lm):
    writer = lm._writer({"do_sample": True, "temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "max_gen_toks": 3})
    options = writer.options
    assert (options.temperature, options.rules.top_p, options.rules.min_p) == (0.5, 0.9, 0.1)
    assert (options.max_new_tokens, options.batch_rows) == (3, 4)
    with pytest.raises(UserError, match="generation options: expected until, .* got num_beams"):
        lm._writer({"num_beams": 4})


def test_conversations_are_rendered_by_the_folders_template(lm):
    turns = [{"role": "user", "content": "red"}]
    assert lm.apply_chat_template(turns).endswith("<|im_start|>assistant\n")
    assert lm.chat_template(True) == tokenizer().template.source
    assert lm.chat_template(False) is None
    assert lm.tokenizer_name.startswith("llmstack-")


def test_the_commands_device_is_not_a_gpu(adapter):
    assert adapter.with_device(["x", "--model", "llmstack"]) == ["x", "--model", "llmstack", "--device", "cpu"]
    for argv in (["x", "ls"], ["x", "--model", "a", "--device=ascend"], ["x", "--model", "a", "--config", "c"]):
        assert adapter.with_device(argv) == argv


def test_the_command_reports_wrong_input(adapter, monkeypatch, capsys, tmp_path):
    path = tmp_path / "nothing"
    argv = ["x", "run", "--model", "llmstack", "--model_args", f"path={path}", "--tasks", "none_of_these"]
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr("lm_eval.__main__.cli_evaluate", lambda: adapter.LlmstackLM(str(path)))
    assert adapter.main() == 2
    assert capsys.readouterr().err.startswith(f"llmstack: {path}: expected a model folder, got none")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda:0"}, "device: expected cpu or ascend, got 'cuda:0'"),
        ({"batch_size": 0}, "batch_size: expected"),
    ],
)
def test_options_that_do_not_fit(adapter, folder, options, message):
    with pytest.raises(UserError, match=message):
        adapter.LlmstackLM(folder, **options)


def test_the_harness_runs_a_task_of_files(adapter, folder, tmp_path, monkeypatch):
    """A multiple-choice task from a local file, end to end: the harness's numbers are those of `llmstack eval`."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from llmstack.evaluation.choice import choice_accuracy, read_choices
    from llmstack.evaluation.loading import load_language_model

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    rows = [
        {"prompt": text, "choices": ["green", "blue black", "white"], "answer": index % 3}
        for index, text in enumerate(("red", "blue", "white green", "black"))
    ]
    data = write_jsonl(tmp_path / "rows.jsonl", rows)
    task = {
        "task": "colours",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": data}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{prompt}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }
    (tmp_path / "colours.yaml").write_text(json.dumps(task))
    found = simple_evaluate(
        model="llmstack",
        model_args=f"path={folder}",
        tasks=["colours"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        bootstrap_iters=0,
    )
    ours = choice_accuracy(load_language_model(folder), read_choices(data, {}))
    assert found["results"]["colours"]["acc,none"] == ours.numbers["accuracy"]
    assert found["results"]["colours"]["acc_norm,none"] == ours.numbers["accuracy_per_byte"]
