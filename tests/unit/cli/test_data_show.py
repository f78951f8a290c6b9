from __future__ import annotations

import io
import re
import sys

import pytest

from llmstack.cli.main import main
from llmstack.cli.recipe_data import RecipeData
from llmstack.data.stage_data import parts_of
from llmstack.registry import STAGES


def show(capsys, *argv: str) -> str:
    assert main(["data", "show", *argv]) == 0
    return capsys.readouterr().out


def shown(text: str) -> list[str]:
    return re.findall(r"^=== row (\S+) of", text, flags=re.MULTILINE)


def test_an_answer_is_marked(recipe, capsys):
    text = show(capsys, recipe, "--stage", "sft", "--row", "0")
    assert re.match(r"=== row data:0 of stages.sft.data: \d+ tokens in 48 places\n", text)
    assert re.search(r"--- segment 1: \d+ tokens of answers.jsonl:\d\n<\|im_start\|>user\nsay \w+<\|im_end\|>", text)
    assert re.search(r"<\|im_start\|>assistant\n\[\[\w+ it is<\|im_end\|>\]\]\n", text)


def test_pairs_and_prompts(recipe, capsys):
    text = show(capsys, recipe, "--stage", "rm", "--row", "data:1")
    assert re.match(r"=== row data:1 of stages.rm.data: \d+ tokens in 2 rows of 48 places\n--- chosen: ", text)
    assert "[[green it is<|im_end|>]]" in text and "[[no<|im_end|>]]" in text and "of pairs.jsonl:2" in text
    text = show(capsys, recipe, "--stage", "policy", "--row", "3")
    assert "--- known answer\nblack\n--- prompt: " in text and "which is black?" in text and "[[" not in text


def test_the_first_rows_of_each_part(recipe, capsys):
    assert shown(show(capsys, recipe, "--stage", "base")) == ["general:0", "general:1", "domain:0", "domain:1"]
    assert shown(show(capsys, recipe, "--stage", "base", "--rows", "1")) == ["general:0", "domain:0"]
    assert shown(show(capsys, recipe, "--stage", "base", "--rows", "1", "--eval")) == ["general:0", "domain:0"]
    assert shown(show(capsys, recipe, "--stage", "policy", "--rows", "9", "--eval")) == ["0", "1", "2"]
    text = show(capsys, recipe, "--stage", "base", "--row", "domain:1", "--eval")
    assert text.startswith("=== row domain:1 of stages.base.eval_data.of.domain: ")


def test_a_document_that_was_cut_says_where(recipe, capsys):
    text = show(capsys, recipe, "--stage", "base", "--rows", "100")
    assert re.search(r"tokens of general.jsonl:\d+ from its token 32 on\n", text)
    assert re.search(r"\]\] … \[\[.+\]\]\n", text), "the label of the last place lies in another row"


def test_tokens_as_a_table(recipe, capsys):
    text = show(capsys, recipe, "--stage", "sft", "--row", "0", "--tokens")
    heading, names, *lines = text.rstrip().splitlines()
    assert names.split()[0] == "place" and len(lines) == int(re.search(r"(\d+) tokens", heading)[1])
    assert [int(line.split()[0]) for line in lines] == list(range(len(lines)))


@pytest.mark.parametrize("stage", ["base", "rm", "policy"])
@pytest.mark.parametrize("step", [1, 3])
def test_a_step_shows_what_the_loader_serves(recipe, capsys, stage, step):
    data = RecipeData(recipe, [], stage=stage)
    config = data.stages[stage]
    loader = data.loader(
        stage, {part: data.corpus.rows(config, source) for part, source in parts_of(config.data).items()}
    )
    for _ in range(step):
        loader.drain()
        for _ in range(config.step_batches):
            loader.next()
    expected = {f"{part}:{row}" for part, rows in loader.drain().rows.items() for row in rows}
    found = shown(show(capsys, recipe, "--stage", stage, "--step", str(step)))
    assert set(found) == expected and len(found) == config.batch_rows * config.step_batches


def test_colours_are_for_terminals(recipe, capsys, monkeypatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    def on_a_terminal() -> str:
        terminal = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            assert main(["data", "show", recipe, "--stage", "sft", "--row", "0"]) == 0
        return terminal.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;32m" in on_a_terminal() and "[[" not in on_a_terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_a_terminal() and "[[" in on_a_terminal()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stage", "nobody"], "--stage: expected one of base, sft, rm, policy, got 'nobody'"),
        (["--stage", "sft", "--row", "5"], "--row: expected a row from 0 to 4, got '5'"),
        (["--stage", "sft", "--row", "-1"], "--row: expected a row from 0 to 4, got '-1'"),
        (["--stage", "sft", "--row", "two"], "--row: expected a row from 0 to 4, got 'two'"),
        (["--stage", "base", "--row", "0"], "--row: expected PART:I, PART one of general, domain, got '0'"),
        (["--stage", "base", "--row", "other:0"], "--row: expected one of general, domain before the colon"),
        (["--stage", "base", "--row", "domain:99"], "--row: expected a row of domain from 0 to "),
        (["--stage", "sft", "--row", "data:0", "--eval"], "--row: expected a number alone"),
        (
            ["--stage", "policy", "--step", "6"],
            "--step: expected a step of 1 to 5 (the budget of stages.policy), got 6",
        ),
        (["--stage", "policy", "--step", "1", "--eval"], "--step: expected it without --eval"),
    ],
)
def test_what_is_not_there(recipe, capsys, words, message):
    assert main(["data", "show", recipe, *words]) == 2
    shown, said = capsys.readouterr()
    assert shown == "" and said.count("\n") == 1 and message in said


def test_a_stage_whose_encoding_nobody_knows(recipe, data_folder, capsys, monkeypatch):
    monkeypatch.setattr(STAGES, "_entries", dict(STAGES._entries))  # other tests list the names there are
    (data_folder / "own_stage.py").write_text(
        "from llmstack.config.stages import StageConfig\n"
        "from llmstack.registry import STAGES\n\n\n"
        "class OwnConfig(StageConfig):\n    '''Own options.'''\n\n\n"
        "STAGES.register('own', config=OwnConfig)(type('Own', (), {'kind': 'own'}))\n"
    )
    source = "{source: jsonl, record: text, path: domain.jsonl}"
    every = "log_every: 1 step, eval_every: 1 step, save_every: 1 step"
    own = f"+stages.own={{kind: own, data: {source}, eval_data: {source}, budget: 1 step, batch_rows: 1, {every}}}"
    assert main(["data", "show", recipe, "--stage", "own", "plugins=[own_stage]", own]) == 2
    assert "stage kind own: expected options derived from those of a built-in kind" in capsys.readouterr().err


def test_a_step_of_which_the_answers_decide_the_rows(capsys):
    words = ["grpo_arithmetic", "stages.policy.dynamic_sampling={max_refills: 1}", "--stage", "policy", "--step", "1"]
    assert main(["data", "show", *words]) == 2
    assert "--step: expected a stage whose steps all read as many rows, got stages.policy" in capsys.readouterr().err
