from __future__ import annotations

import logging

import numpy as np
import pytest

from llmstack.config.data import ConcatConfig
from llmstack.config.load import load_recipe
from llmstack.config.recipe import RecipeConfig
from llmstack.config.stages import StageConfig
from llmstack.data.answer_rows import PreferenceRows
from llmstack.data.bucket_rows import PromptRows
from llmstack.data.corpus import Corpus
from llmstack.data.loader import Loader
from llmstack.data.packed_rows import PackedRows
from llmstack.data.recipe_tokenizer import build_tokenizer
from llmstack.data.row_tables import Rows
from llmstack.data.stage_data import describe, evaluation_parts_of, part_path, parts_of, rows_of_step, training_loader
from llmstack.errors import UserError
from tests.helpers.data_recipe import write_recipe


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> RecipeConfig:
    monkeypatch.chdir(tmp_path)
    return load_recipe(str(write_recipe(tmp_path))).config


@pytest.fixture
def corpus(recipe) -> Corpus:
    return Corpus(build_tokenizer(recipe.tokenizer, seed=1), 1)


def encoded(corpus: Corpus, stage: StageConfig) -> dict[str, Rows]:
    return {name: corpus.rows(stage, source) for name, source in parts_of(stage.data).items()}


def test_each_kind_of_stage_has_its_rows(recipe, corpus):
    kinds = {"base": PackedRows, "sft": PackedRows, "rm": PreferenceRows, "policy": PromptRows}
    for name, kind in kinds.items():
        stage = recipe.stages[name]
        assert type(corpus.rows(stage, stage.eval_data)) is kind
    base, sft, rm, policy = recipe.stages.values()
    assert corpus.rows(base, base.eval_data).take(np.arange(1))["tokens"].shape == (1, 32)
    assert corpus.rows(sft, sft.data).row_targets.sum() < corpus.rows(sft, sft.data).row_tokens.sum() // 2
    assert corpus.rows(rm, rm.data).take(np.arange(1))["tokens"].shape == (2, 48), "length_buckets are used"
    assert (len(corpus.rows(policy, policy.data)), len(corpus.rows(policy, policy.data, evaluation=True))) == (5, 3)


def test_packing_and_the_limit_of_untrained_conversations_are_the_stages(recipe, corpus):
    base, sft = recipe.stages["base"], recipe.stages["sft"]
    apart = base.model_copy(update={"packing": "none"})
    domain = parts_of(base.data)["domain"]
    assert len(corpus.rows(apart, domain)) == 9 > len(corpus.rows(base, domain))
    with pytest.raises(UserError, match="max_untrained_ratio"):
        corpus.rows(sft.model_copy(update={"seq_len": 4}), sft.data)
    documents = corpus.documents(sft.data, "chat")
    prompts = [int(np.argmax(documents.mask[start:])) for start in documents.bounds[:-1]]
    tolerant = sft.model_copy(update={"seq_len": min(prompts) + 1, "max_untrained_ratio": 0.9})
    left_out = sum(length > min(prompts) for length in prompts)
    assert corpus.rows(tolerant, sft.data).report.dropped == {"prompt_fills_row": left_out}


def test_options_of_a_subclass_are_those_of_its_base(recipe, corpus):
    sft = recipe.stages["sft"]
    mine = type("MineConfig", (type(sft),), {}).model_validate(dict(sft))
    assert len(corpus.rows(mine, mine.data)) == len(corpus.rows(sft, sft.data))


def test_a_stage_whose_encoding_nobody_knows_is_named(recipe, corpus):
    mine = type("MineConfig", (StageConfig,), {}).model_construct(kind="mine")
    with pytest.raises(UserError, match="stage kind mine: expected options derived from .* got MineConfig"):
        corpus.rows(mine, recipe.stages["sft"].data)


def test_parts_and_their_paths(recipe):
    base, sft = recipe.stages["base"], recipe.stages["sft"]
    assert list(parts_of(base.data)) == ["general", "domain"]
    assert parts_of(sft.data) == {"data": sft.data}
    assert part_path("stages.base.data", base.data, "domain") == "stages.base.data.parts.domain.data"
    assert part_path("stages.sft.data", sft.data, "data") == "stages.sft.data"
    assert evaluation_parts_of(base) == base.eval_data.of
    assert evaluation_parts_of(sft) == {"": sft.eval_data}
    rm = recipe.stages["rm"]
    both = rm.model_copy(update={"eval_data": ConcatConfig(source="concat", of={"a": rm.data, "b": rm.data})})
    assert evaluation_parts_of(both) == {"": both.eval_data}, "pairs are measured together"


@pytest.mark.parametrize("name", ["base", "sft", "rm", "policy"])
def test_the_rows_of_a_step_are_those_a_loader_serves(recipe, corpus, name):
    stage = recipe.stages[name]
    parts = encoded(corpus, stage)

    def loader() -> Loader:
        return training_loader(stage, parts, seed=7, path="data")

    straight, other = loader(), []
    for step in range(1, 8):
        for _ in range(stage.step_batches):
            straight.next()
        found = rows_of_step(stage, loader(), step)
        by_part: dict[str, list[int]] = {}
        for part, row in found:
            by_part.setdefault(part, []).append(row)
        assert by_part == straight.drain().rows
        assert len(found) == stage.batch_rows * stage.step_batches
        other.append(rows_of_step(stage, training_loader(stage, parts, seed=8, path="data"), step) != found)
    assert any(other), "the seed decides"


def test_a_blend_keeps_its_parts_apart(recipe, corpus):
    stage = recipe.stages["base"]
    parts = encoded(corpus, stage)
    loader = training_loader(stage, parts, seed=7, path="data")
    assert len(loader.rows) == sum(map(len, parts.values()))
    assert {part for part, _ in rows_of_step(stage, loader, 1)} <= {"general", "domain"}


def test_what_became_of_the_records_is_logged(recipe, corpus, caplog):
    stage = recipe.stages["base"]
    rows = encoded(corpus, stage)["general"]
    with caplog.at_level(logging.INFO, "llmstack.data"):
        describe("stages.base.data", rows)
    assert "stages.base.data: 12 of 13 records" in caplog.text
    assert "1 left out (empty, the first is general.jsonl:13)" in caplog.text


def test_where_rows_come_from(recipe, corpus):
    base, sft, rm, policy = recipe.stages.values()
    general = encoded(corpus, base)["general"]
    long = next(row for row in range(len(general)) if general.origins(row)[0].skipped)
    assert general.origins(long)[0].skipped % 32 == 0
    assert {origin.where for row in range(len(general)) for origin in general.origins(row)} == {
        f"general.jsonl:{line}" for line in range(1, 13)
    }
    rows = corpus.rows(sft, sft.data)
    batch = rows.take(np.arange(len(rows)))
    assert [len(rows.origins(row)) for row in range(len(rows))] == batch["segments"].max(axis=1).tolist()
    assert [origin.where for origin in corpus.rows(rm, rm.data).origins(4)] == ["pairs.jsonl:5"] * 2
    assert corpus.rows(policy, policy.data).origins(2)[0].where == "prompts.jsonl:3"


def test_the_parts_of_joined_rows_keep_their_origins(recipe, corpus):
    parts = encoded(corpus, recipe.stages["base"])
    joined = PackedRows.join(list(parts.values()))
    assert joined.origins(len(parts["general"])) == parts["domain"].origins(0)


def test_the_answers_of_a_pair(recipe, corpus):
    rm = recipe.stages["rm"]
    rows = corpus.rows(rm, rm.data)
    chosen, rejected = rows.answer_masks(1)
    tokens = rows.take(np.array([1]))["tokens"]
    decoded = [corpus.tokenizer.decode(row[: len(mask)][mask == 1]) for row, mask in
               zip(tokens, (chosen, rejected), strict=True)]  # fmt: skip
    assert decoded == ["green it is", "no"]


def test_documents_know_whether_they_were_found(recipe, corpus):
    source = recipe.stages["sft"].data.model_copy(update={"fields": {"prompt": "response", "response": "prompt"}})
    first, again = (corpus.documents(source, "chat") for _ in range(2))
    assert (first.encoded_now, again.encoded_now) == (True, False)
    assert first.folder == again.folder and first.folder.is_dir()
    assert first.file_bytes == sum(path.stat().st_size for path in first.folder.iterdir()) > 0


def test_a_position_in_buckets_fits_other_micro_batches_of_the_same_step(recipe, corpus):
    whole = recipe.stages["rm"].model_copy(update={"batch_rows": 4, "accumulate": 1})
    halves = whole.model_copy(update={"batch_rows": 2, "accumulate": 2})
    one, other = (training_loader(config, encoded(corpus, config), seed=3, path="x") for config in (whole, halves))
    one.next()
    other.restore(one.state())
    assert other.state() == one.state()
