from __future__ import annotations

import pytest

from llmstack import registry
from llmstack.cli.main import main


@pytest.mark.parametrize(
    "what",
    [
        "stages",
        "models",
        "providers",
        "rewards",
        "advantages",
        "aggregations",
        "sources",
        "optimizers",
        "schedules",
        "cleaners",
    ],
)
def test_every_registered_name_has_a_line(what, capsys):
    assert main(["list", what]) == 0
    table = getattr(registry, what.upper())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(table.names())
    for line, name in zip(lines, table.names(), strict=True):
        assert line.endswith(table.summary(name))


def test_recipes_are_listed_with_their_first_comment(capsys):
    assert main(["list", "recipes"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("quickstart  ") or "\nquickstart  " in out
    assert "#" not in out
