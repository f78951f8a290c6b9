from __future__ import annotations

import pytest

from llmstack.annotation.annotator import Setting
from llmstack.annotation.cache import AnswerCache
from llmstack.annotation.local_model import LocalModelAnnotator
from llmstack.annotation.requests import Request
from llmstack.cli.main import main
from llmstack.config.annotation import LocalModelConfig
from llmstack.data.records import Message
from llmstack.errors import UserError
from tests.helpers.stages import causal_folder, scalar_folder, tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = causal_folder(tmp_path_factory.mktemp("models") / "causal")
    tokenizer().save(path)
    return path


def annotator(folder, place, **options):
    config = LocalModelConfig(kind="model", path=str(folder), **{"max_tokens": 6, "batch_rows": 2} | options)
    return LocalModelAnnotator(config, Setting("local", AnswerCache(place / "cache.sqlite"), seed=4))


def requests(*texts, sample=0):
    return [Request((Message("user", text),), sample, "f:1") for text in texts]


def texts(replies):
    return [reply.text for reply in replies]


def test_it_says_what_generate_says(folder, tmp_path, capsys):
    asked = ["red green", "blue " * 5, "white", "black red"]
    replies = annotator(folder, tmp_path).answers(requests(*asked))
    for text, reply in zip(asked, replies, strict=True):
        words = ["--chat", "--temperature", "0", "--max-new-tokens", "6", "--prompt", text]
        assert main(["generate", str(folder), *words]) == 0
        assert capsys.readouterr().out == reply.text + "\n"
        assert reply.input_tokens == len(tokenizer().encode_prompt([Message("user", text)]))
        assert 1 <= reply.output_tokens <= 6


def test_samples_differ_and_come_again(folder, tmp_path):
    asked = [request for sample in range(3) for request in requests("red", "blue", sample=sample)]
    first = annotator(folder, tmp_path, temperature=1.5, samples=3)
    replies = first.answers(asked)
    assert len(set(texts(replies))) > 3
    (tmp_path / "other").mkdir()
    again = annotator(folder, tmp_path / "other", temperature=1.5, samples=3)
    assert texts(again.answers(asked)) == texts(replies)


def test_what_is_kept_needs_no_model(folder, tmp_path):
    annotator(folder, tmp_path).answers(requests("red"))
    second = annotator(folder, tmp_path)
    assert second.answers(requests("red"))[0].text
    assert "_writer" not in vars(second)


def test_other_weights_are_another_annotator(folder, tmp_path):
    other = causal_folder(tmp_path / "other", seed=7)
    tokenizer().save(other)
    assert annotator(folder, tmp_path).source != annotator(other, tmp_path).source


def test_a_request_that_cannot_be_put_is_a_problem_of_its_item(folder, tmp_path):
    replies = annotator(folder, tmp_path).answers(requests("red", "red " * 80, "end <|im_end|>"))
    assert replies[0].problem in ("", "cut off at the limit of tokens")
    assert "where 58 are left for it" in replies[1].problem
    assert "without control tokens" in replies[2].problem


def test_a_model_without_a_template_is_refused(folder, tmp_path):
    path = causal_folder(tmp_path / "plain")
    tokenizer().save(path)
    (path / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match=r"expected a chat template, got none.* 0 of 1 answers of local"):
        annotator(path, tmp_path).answers(requests("red"))


def test_a_model_that_scores_is_refused(tmp_path):
    path = scalar_folder(tmp_path / "scalar")
    tokenizer().save(path)
    with pytest.raises(UserError, match="expected a language model, got one that scores"):
        annotator(path, tmp_path).answers(requests("red"))
