from __future__ import annotations

import pytest

from llmstack.config.stages import SftConfig
from llmstack.data.records import Message, MessagesRecord, ResponseRecord
from llmstack.errors import DataError
from llmstack.stages.sft import SftStage, _question
from tests.helpers import stages as tiny


def make(folder, rows, **changes):
    source = {"source": "jsonl", "record": "prompt_response", "path": tiny.write_jsonl(folder / "rows.jsonl", rows)}
    options = {
        "seq_len": 48,
        "eval_batches": 2,
        "samples": {"prompts": 3, "max_new_tokens": 4, "temperature": 0.0},
        "max_untrained_ratio": 0.0,
    }
    config = SftConfig.model_validate(
        {"kind": "sft", "data": source, "eval_data": source} | tiny.COMMON | options | changes
    )
    return SftStage(config, tiny.context())


def test_an_answer_is_learned_with_its_end(tmp_path):
    """What is trained is the answer and the token that ends it: greedy answers stop by themselves."""
    stage = make(tmp_path, [{"prompt": word, "response": word} for word in tiny.WORDS], optim=tiny.OPTIM | {"lr": 3e-2})
    stage.build()
    for index in range(1, 81):
        stage.step(index)
    stage.evaluate()
    assert [sample["response"] for sample in stage.samples()] == list(tiny.WORDS[:3])
    assert all(sample["finished"] for sample in stage.samples())


def test_a_sample_with_nothing_to_train_is_refused(tmp_path):
    stage = make(tmp_path, [{"prompt": "red " * 60, "response": "red"}])
    with pytest.raises(DataError, match="rows.jsonl:1.*no trained token"):
        stage.build()


@pytest.mark.parametrize(("new", "left"), [(44, 2), (60, 0)])
def test_a_prompt_without_room_for_an_answer_is_left_out_of_the_samples(tmp_path, caplog, new, left):
    """Of a context of 64; training goes on."""
    rows = [{"prompt": "red", "response": "red"}, {"prompt": "red " * 12, "response": "red"}]
    rows.append(rows[0])
    stage = make(tmp_path, rows, samples={"prompts": 3, "max_new_tokens": new, "temperature": 0.0})
    with caplog.at_level("WARNING", "llmstack"):
        stage.build()
    stage.evaluate()
    assert len(stage.samples()) == left
    assert (
        f"stages.stage.samples: {3 - left} of 3 prompts are left out, longer than the {64 - new} tokens" in caplog.text
    )


def test_the_question_ends_before_the_first_answer():
    turns = (Message("system", "s"), Message("user", "u"), Message("assistant", "a"), Message("user", "v"))
    assert _question(MessagesRecord(turns)) == turns[:2]
    assert _question(ResponseRecord("u", "a")) == (Message("user", "u"),)
