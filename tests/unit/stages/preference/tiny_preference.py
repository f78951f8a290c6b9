"""A tiny preference stage, for the tests."""

from __future__ import annotations

from llmstack.config.preference import PreferenceConfig
from llmstack.registry import REWARDS
from llmstack.stages.preference.stage import PreferenceStage
from tests.helpers import stages as tiny

NAME = "says_red"
if NAME not in REWARDS:

    @REWARDS.register(NAME)
    def says_red(batch):
        """1 when the answer holds the word red, else 0."""
        return [float("red" in response) for response in batch.responses]


def pairs() -> list[dict[str, str]]:
    """Red is the better answer, whatever was asked."""
    return [
        {"prompt": question, "chosen": "red", "rejected": other}
        for question in tiny.WORDS
        for other in tiny.WORDS
        if other != "red"
    ]


def labelled() -> list[dict[str, object]]:
    return [
        {"prompt": question, "response": answer, "label": answer == "red"}
        for question in tiny.WORDS
        for answer in tiny.WORDS
    ]


def config(folder, loss, *, record="preference", rows=None, **changes) -> PreferenceConfig:
    path = tiny.write_jsonl(folder / f"{record}.jsonl", rows or (pairs() if record == "preference" else labelled()))
    source = {"source": "jsonl", "record": record, "path": path}
    options = {
        "kind": "preference",
        "init_from": "lm",
        "data": source,
        "eval_data": source,
        "batch_rows": 10,
        "seq_len": 48,
        "eval_batches": 2,
        "loss": loss,
        "samples": {"prompts": 3, "max_new_tokens": 4, "temperature": 1.0},
        "yardsticks": {"red": {"kind": NAME}},
    }
    return PreferenceConfig.model_validate(tiny.COMMON | options | changes)


def build(folder, loss, **changes) -> PreferenceStage:
    options = config(folder, loss, **changes)
    models = {}
    for number, name in enumerate(("lm", "other")):
        models[name] = folder / name if (folder / name).exists() else tiny.causal_folder(folder / name, seed=number)
    stage = PreferenceStage(options, tiny.context(models))
    stage.build()
    return stage
