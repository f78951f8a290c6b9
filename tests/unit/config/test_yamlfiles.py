from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from llmstack.config.yamlfiles import child, read_node, scalars, yaml_problem
from llmstack.errors import ConfigError


def read(write, text: str) -> yaml.MappingNode:
    return read_node(Path(write(text, "a.yaml")).resolve())


def test_nodes_know_their_lines(write):
    node = read(write, "a: 1\nb: {c: [x, y]}\n")
    below = child(child(node, "b"), "c")
    assert below is not None and below.start_mark.line == 1
    assert [item.value for item in scalars(node)] == ["a", "1", "b", "c", "x", "y"]


def test_a_missing_child_is_none(write):
    assert child(read(write, "a: 1\n"), "b") is None
    assert child(None, "b") is None


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_an_empty_file_is_an_empty_mapping(write, text):
    assert read(write, text).value == []


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("a: 1\nb: [1\n", "a.yaml:3", "syntax error"),
        ("a: 1\n\tb: 2\n", "a.yaml:2", "syntax error"),
        ("a: 1\n  b: 2\n", "a.yaml:2", "mapping values are not allowed"),
        ("- 1\n", "a.yaml", "expected `key: value` lines"),
    ],
)
def test_what_is_not_a_mapping_is_refused(write, text, path, words):
    with pytest.raises(ConfigError) as caught:
        read(write, text)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert words in problem.message


def test_other_encodings_are_refused(write):
    Path(write("", "a.yaml")).write_bytes("a: é\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"a\.yaml: expected UTF-8 text, got the byte 0xe9 at offset 3"):
        read_node(Path("a.yaml"))


def test_an_unreadable_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected a readable file, got Is a directory"):
        read_node(tmp_path)


def test_an_error_without_a_line_still_names_the_file(tmp_path):
    problem = yaml_problem(yaml.YAMLError("odd"), tmp_path / "x.yaml")
    assert problem.path.endswith("x.yaml")
    assert "odd" in problem.message
