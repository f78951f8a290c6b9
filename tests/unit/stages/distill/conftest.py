"""A small teacher in a folder, and students that read the same colours."""

from __future__ import annotations

import pytest

from llmstack.config.distill import DistillConfig
from llmstack.models.checkpoint_io import build_causal, save_model
from llmstack.stages.distill.stage import DistillStage
from tests.helpers import stages as tiny


def teacher_folder(path, *, tokenizer=None, seed=5, **sizes):
    path.mkdir()
    save_model(build_causal(tiny.model_config(**sizes), seed=seed), path)
    (tokenizer or tiny.tokenizer()).save(path)
    return path


@pytest.fixture(scope="session")
def teacher(tmp_path_factory):
    return teacher_folder(tmp_path_factory.mktemp("models") / "teacher")


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """Data options by kind."""
    folder = tmp_path_factory.mktemp("data")
    texts = [{"text": text} for text in tiny.colours(24)]
    pairs = [{"prompt": text, "response": text.upper()} for text in tiny.colours(24, seed=1)]
    return {
        "text": {"source": "jsonl", "record": "text", "path": tiny.write_jsonl(folder / "texts.jsonl", texts)},
        "chat": {"source": "jsonl", "record": "prompt_response", "path": tiny.write_jsonl(folder / "p.jsonl", pairs)},
    }


@pytest.fixture
def make(teacher, sources):
    """Makes a stage that is not built."""

    def stage(data_kind="text", *, folder=teacher, inputs=None, context=None, **changes):
        options = {
            "kind": "distill",
            "data": sources[data_kind],
            "eval_data": sources[data_kind],
            "data_kind": data_kind,
            "teacher": str(folder),
            "seq_len": 48,
            "eval_batches": 2,
            "samples": {"prompts": 1, "max_new_tokens": 4, "temperature": 0.0},
            "divergence": {"kind": "forward_kl"},
            "soft_weight": 1.0,
            "hard_weight": 0.5,
        }
        config = DistillConfig.model_validate(tiny.COMMON | options | changes)
        named = {str(folder): folder, **(inputs or {})}
        return DistillStage(config, context or tiny.context(named))

    return stage
