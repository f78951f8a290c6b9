from __future__ import annotations

import pytest
from pydantic import Field

from llmstack.config.data import AnySource
from llmstack.config.document import DocumentConfig, load_document
from llmstack.errors import ConfigError, UserError


class JobConfig(DocumentConfig):
    data: AnySource
    limit: int = Field(gt=0)


@pytest.fixture
def job(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    path = tmp_path / "job.yaml"
    path.write_text(f"data: {{source: text, path: {tmp_path / 'a.txt'}}}\nlimit: 3\n")
    return path


def test_a_file_is_decoded_and_the_command_line_wins(job):
    document = load_document(str(job), ["limit=4"], JobConfig)
    assert (document.config.limit, document.resolved["limit"], document.path) == (4, 4, job)
    assert document.resolved["plugins"] == []


def test_every_problem_is_told_with_its_path_and_line(job):
    job.write_text("data: {source: text, path: nowhere.txt}\nlimit: 0\nlimt: 1\n")
    with pytest.raises(ConfigError) as error:
        load_document(str(job), [], JobConfig)
    text = str(error.value)
    assert "limit" in text and "greater than 0" in text
    assert "'limt'" in text and "job.yaml:3" in text
    assert "data.path" in text and "nowhere.txt" in text


def test_plugins_are_loaded_before_decoding(job, tmp_path):
    (tmp_path / "my_document_source.py").write_text(
        "from llmstack.registry import SOURCES\n@SOURCES.register('document_words')\nclass Words:\n    'Words.'\n"
    )
    job.write_text("plugins: [my_document_source]\ndata: {source: document_words}\nlimit: 1\n")
    assert load_document(str(job), [], JobConfig).config.data.source == "document_words"


@pytest.mark.parametrize("name", ["missing.yaml", "a.txt", "."])
def test_what_is_no_yaml_file_is_refused(tmp_path, job, name):
    with pytest.raises(UserError, match=r"expected a file whose name ends in \.yaml"):
        load_document(str(tmp_path / name), [], JobConfig)


def test_a_folder_of_a_key_s_name_beside_the_file_is_no_group(job, tmp_path):
    (tmp_path / "limit").mkdir()
    (tmp_path / "limit" / "result.txt").write_text("of an earlier job")
    assert load_document(str(job), ["limit=4"], JobConfig).config.limit == 4
    with pytest.raises(ConfigError, match="limit: expected a number greater than 0, got 0. .*command line"):
        load_document(str(job), ["limit=0"], JobConfig)
