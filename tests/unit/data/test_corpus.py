from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from llmstack.config.blend import BlendConfig
from llmstack.config.data import JsonlConfig, SourceConfig, TextFileConfig
from llmstack.config.stages import RewardConfig
from llmstack.data import corpus as corpus_module
from llmstack.data.corpus import Blend, Corpus
from llmstack.data.records import PreferenceRecord, PromptRecord, Record, ResponseRecord, TextRecord
from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import DataError
from llmstack.registry import SOURCES
from tests.helpers import rows
from tests.helpers.rows import everything
from tests.unit.data.letters import TEMPLATE, letter_tokenizer

RECORDS = {
    "text": [TextRecord("abc", where="x:1"), TextRecord("", where="x:2"), TextRecord("de", where="x:3")],
    "chat": [ResponseRecord("a", "b", where="x:1"), ResponseRecord("c", "de", where="x:2")],
    "pairs": [PreferenceRecord("a", "b", "c", 0.5, where="x:1"), PreferenceRecord("a", "b", "b", where="x:2")],
    "prompts": [PromptRecord(letter, letter, where="x") for letter in "abcd"],
    "none": [],
}


class CountedConfig(SourceConfig):
    """Options of the source below."""

    records: str = "text"
    option: int = 0


@dataclass
class Counted:
    """A source that counts how many records were taken from it."""

    config: CountedConfig
    seed: int
    version: str = field(default="1", init=False)
    taken = 0

    def records(self):
        for record in RECORDS[self.config.records]:
            type(self).taken += 1
            yield record

    def fingerprint(self) -> str:
        return self.version


@pytest.fixture(autouse=True)
def counted(tmp_path, monkeypatch) -> type[Counted]:
    monkeypatch.setenv("LLMSTACK_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Counted, "taken", 0)
    monkeypatch.setitem(SOURCES._entries, "counted", None)  # so that the entry goes with the test
    del SOURCES._entries["counted"]
    return SOURCES.register("counted", config=CountedConfig)(Counted)


def config(records: str = "text", option: int = 0) -> CountedConfig:
    return CountedConfig(source="counted", records=records, option=option)


@pytest.fixture
def corpus(letters: Tokenizer) -> Corpus:
    return Corpus(letters, seed=1, workers=0)


def same(left, right) -> None:
    for name, array in everything(left).items():
        assert np.array_equal(array, everything(right)[name]), name
    assert left.report == right.report


def reward_stage(seq_len, max_dropped_ratio, length_buckets=None) -> RewardConfig:
    options = {"seq_len": seq_len, "max_dropped_ratio": max_dropped_ratio, "length_buckets": length_buckets}
    return RewardConfig.model_construct(**options)


def test_rows_are_those_of_the_records(corpus: Corpus, letters: Tokenizer) -> None:
    for packing in ("best_fit", "sequential", "none"):
        wanted = rows.text(RECORDS["text"], letters, 4, packing=packing, seed=1)
        same(corpus.text(config("text"), 4, packing=packing), wanted)
    wanted = rows.chat(RECORDS["chat"], letters, 30, 0.0, seed=1)
    same(corpus.chat(config("chat"), 30, max_untrained_ratio=0.0), wanted)
    same(
        corpus.pairs(reward_stage(20, 0.5, (10, 20)), config("pairs")),
        rows.pairs(RECORDS["pairs"], letters, 20, buckets=(10, 20)),
    )


@pytest.mark.parametrize("kind", ["text", "chat", "pairs"])
def test_a_second_time_nothing_is_read(kind, corpus: Corpus, letters: Tokenizer, counted, monkeypatch) -> None:
    first = corpus.documents(config(kind), kind)
    assert counted.taken == len(RECORDS[kind])
    monkeypatch.setattr(corpus_module, "encode_records", None)  # nor encoded
    second = Corpus(letter_tokenizer(), seed=1).documents(config(kind), kind)
    assert counted.taken == len(RECORDS[kind])
    assert np.array_equal(first.tokens, second.tokens) and first.losses == second.losses


def test_row_length_and_packing_do_not_encode_again(corpus: Corpus, letters: Tokenizer, counted) -> None:
    corpus.text(config(), 4)
    corpus.text(config(), 3, packing="sequential")
    Corpus(letters, seed=1, workers=2).text(config(), 5, packing="none")
    assert counted.taken == 3
    corpus.chat(config("chat"), 30, max_untrained_ratio=0.0)
    corpus.chat(config("chat"), 25, max_untrained_ratio=1.0, packing="none")
    corpus.pairs(reward_stage(20, 0.5), config("pairs"))
    corpus.pairs(reward_stage(30, 1.0, (10, 30)), config("pairs"))
    assert counted.taken == 7


@pytest.mark.parametrize("what", ["data", "option", "seed", "tokenizer", "template", "version", "library"])
def test_what_the_ids_depend_on_encodes_again(what, corpus: Corpus, letters: Tokenizer, counted, monkeypatch) -> None:
    corpus.documents(config(), "text")
    changed, option = corpus, 0
    match what:
        case "data":
            monkeypatch.setattr(counted, "fingerprint", lambda self: "2")
        case "option":
            option = 1
        case "seed":
            changed = Corpus(letters, seed=2)
        case "tokenizer":
            changed = Corpus(letter_tokenizer(bos=True), seed=1)
        case "template":
            changed = Corpus(letter_tokenizer(template=TEMPLATE + " "), seed=1)
        case "version":
            monkeypatch.setattr(corpus_module, "own_version", lambda: "other code")
        case "library":
            monkeypatch.setattr(corpus_module.tokenizers, "__version__", "9.9")
    changed.documents(config(option=option), "text")
    assert counted.taken == 6
    changed.documents(config(option=option), "text")
    assert counted.taken == 6


def test_one_source_of_two_kinds_is_encoded_for_each(corpus: Corpus, monkeypatch) -> None:
    folders = []
    cached = corpus_module.cached_folder
    monkeypatch.setattr(corpus_module, "cached_folder", lambda g, key, b: (folders.append(key), cached(g, key, b))[1])
    corpus.documents(config("chat"), "chat")
    with pytest.raises(DataError, match="x:1: expected TextRecord"):
        corpus.documents(config("chat"), "text")
    assert len(set(folders)) == 2


PLUGIN = """
from llmstack.data.records import TextRecord

class Source:
    def __init__(self, config, *, seed):
        pass

    def records(self):
        return [TextRecord({text!r})]

    def fingerprint(self):
        return "always the same"
"""


def test_the_code_of_a_plugin_counts(tmp_path, corpus: Corpus, letters: Tokenizer, monkeypatch) -> None:
    path = tmp_path / "corpus_plugin.py"
    found = []
    for text in ("abc", "d", "abc"):
        path.write_text(PLUGIN.format(text=text))
        spec = importlib.util.spec_from_file_location("corpus_plugin", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "corpus_plugin", module)
        exec(compile(path.read_text(), path, "exec"), module.__dict__)  # past the cache of compiled files
        monkeypatch.setattr(SOURCES._entries["counted"], "target", module.Source)
        found.append(corpus.documents(config(), "text").tokens.tolist())
    assert found == [letters.encode(text) + [letters.eos_id] for text in ("abc", "d", "abc")]


def test_a_changed_file_is_read_again(tmp_path, corpus: Corpus, letters: Tokenizer) -> None:
    path, found = tmp_path / "data.txt", []
    for text in ("abc", "abd"):
        path.write_text(text)
        found.append(corpus.documents(TextFileConfig(source="text", path=str(path)), "text").tokens.tolist())
    assert found == [[*letters.encode(text), letters.eos_id] for text in ("abc", "abd")]


def test_a_damaged_folder_is_encoded_again(corpus: Corpus, counted, tmp_path, caplog) -> None:
    first = corpus.documents(config(), "text").tokens.tolist()
    (path,) = (tmp_path / "cache" / "documents").glob("*/tokens.bin")
    path.write_bytes(bytes(reversed(path.read_bytes())))
    assert corpus.documents(config(), "text").tokens.tolist() == first
    assert counted.taken == 6 and str(path) in caplog.text


def test_an_empty_data_set_is_refused_every_time(corpus: Corpus) -> None:
    for _ in range(2):
        with pytest.raises(DataError, match="expected at least one record, got an empty data set"):
            corpus.documents(config("none"), "text")
    with pytest.raises(DataError, match="expected at least one PromptRecord"):
        corpus.prompts(config("none"), (8,))


def test_a_wrong_record_is_named_and_nothing_is_kept(corpus: Corpus, counted) -> None:
    for _ in range(2):
        with pytest.raises(DataError, match="x:1: expected PreferenceRecord"):
            corpus.documents(config("text"), "pairs")
    assert counted.taken == 6


@pytest.mark.parametrize(("at_most", "prompts"), [(None, "abcd"), (2, "ab"), (9, "abcd")])
def test_prompts_are_read_as_far_as_they_are_wanted(at_most, prompts, corpus: Corpus, counted) -> None:
    found = corpus.prompts(config("prompts"), (8, 16), at_most=at_most)
    assert found.prompts == tuple(prompts) == found.answers
    assert counted.taken == len(prompts)


def test_records_come_as_they_are_asked_for(corpus: Corpus, counted) -> None:
    records = corpus.records(config())
    assert counted.taken == 0
    assert next(records) == RECORDS["text"][0] and counted.taken == 1


# --- blends as a source ------------------------------------------------------------------------------------------


def blend_of(*parts: SourceConfig) -> BlendConfig:
    described = {f"p{number}": {"data": part, "weight": 1} for number, part in enumerate(parts)}
    return BlendConfig.model_validate({"source": "blend", "parts": described})


def test_records_of_a_blend_are_those_of_its_parts(corpus: Corpus, tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "from a file"}\n')
    lines = JsonlConfig(source="jsonl", path=str(path), record="text")
    blend = blend_of(config("text"), lines)
    found: list[Record] = list(corpus.records(blend))
    assert found == [*RECORDS["text"], TextRecord("from a file")]
    first = Blend(blend, seed=1).fingerprint()
    assert first == Blend(blend, seed=1).fingerprint()
    assert first != Blend(blend_of(lines, config("text")), seed=1).fingerprint()
    path.write_text('{"text": "from another"}\n')
    assert first != Blend(blend, seed=1).fingerprint()


def test_the_seed_reaches_the_parts_of_a_blend(letters: Tokenizer, counted, monkeypatch) -> None:
    monkeypatch.setattr(counted, "records", lambda self: iter([TextRecord(str(self.seed))]))
    assert list(Corpus(letters, seed=7).records(blend_of(config(), config()))) == [TextRecord("7")] * 2
