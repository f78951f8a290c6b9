from __future__ import annotations

from pathlib import Path

from llmstack.config.provenance import Origins


def origins_of(write, text: str, package: str = "") -> Origins:
    origins = Origins()
    origins.add_file(Path(write(text, "a.yaml")).resolve(), package)
    return origins


def test_each_key_and_item_has_its_line(write):
    origins = origins_of(write, "# about\na: 1\nb:\n  c:\n    - x\n    - y\n")
    assert origins.get("a") == "a.yaml:2"
    assert origins.get("b.c") == "a.yaml:4"
    assert origins.get("b.c.1") == "a.yaml:6"


def test_a_package_is_put_before_the_keys(write):
    origins = origins_of(write, "\na: 1\n", "stages.base")
    assert origins.get("stages.base.a") == "a.yaml:2"
    assert origins.find("stages.base.missing") == "a.yaml:1"


def test_defaults_and_hydra_are_left_out_at_the_root_only(write):
    origins = origins_of(write, "defaults: [x]\nhydra: {a: 1}\nb: {defaults: 1}\n")
    assert origins.get("defaults") is None
    assert origins.get("hydra.a") is None
    assert origins.get("b.defaults") == "a.yaml:3"


def test_merge_keys_point_at_the_merged_lines(write):
    origins = origins_of(write, "base: &base\n  a: 1\n  b: 2\nmine:\n  <<: *base\n  b: 3\nlist:\n  <<: [*base]\n")
    assert (origins.get("mine.a"), origins.get("mine.b"), origins.get("list.a")) == ("a.yaml:2", "a.yaml:6", "a.yaml:2")


def test_a_later_value_wins_and_mappings_merge(write):
    origins = origins_of(write, "a: {x: 1, y: 2}\nb: [1, 2]\n")
    origins.add_override("a", {"y": 3})
    origins.add_override("b", [5])
    assert origins.get("a.x") == "a.yaml:1"
    assert origins.get("a.y") == "command line"
    assert origins.get("b.1") is None
    assert origins.find("b.0") == "command line"


def test_a_scalar_replaces_what_was_below(write):
    origins = origins_of(write, "a: {x: 1}\n")
    origins.add_override("a", 5)
    assert origins.get("a.x") is None


def test_an_unknown_path_has_the_origin_of_its_nearest_ancestor(write):
    origins = origins_of(write, "a: {x: 1}\n")
    assert origins.find("a.z.w") == "a.yaml:1"
    assert origins.find("nothing.at.all") == ""


def test_a_deleted_key_is_forgotten(write):
    origins = origins_of(write, "a: {x: {y: 1}}\n")
    origins.remove("a.x")
    assert origins.get("a.x") is None
    assert origins.get("a.x.y") is None
    assert origins.find("a.x") == "command line"
    assert origins.find("a.w") == "a.yaml:1"


def test_a_mapping_made_by_arguments_comes_from_the_command_line(write):
    origins = origins_of(write, "a: {x: 1}\n")
    origins.add_override("a.new.key", 1)
    assert origins.find("a.new") == "command line"


def test_an_inherited_value_is_not_set_by_anybody(write):
    origins = origins_of(write, "a: {x: 1}\n")
    origins.inherit("b.x", "a.x")
    assert origins.get("b.x") == "inherited from a.x"
    assert origins.sets("a.x")
    assert not origins.sets("b.x")
    assert not origins.sets("c")
    assert origins.find_below("b") == set()
    assert origins.find_below("a") == {"a.yaml:1"}


def test_an_interpolated_mapping_passes_its_origin_on(write):
    origins = origins_of(write, "a: ${b}\n")
    origins.spread("a", {"x": {"y": 1}, "z": [1]})
    assert {origins.get("a.x.y"), origins.get("a.z.0")} == {"a.yaml:1"}
