from __future__ import annotations

import pytest

from tests.integration.tiny_run import train


@pytest.fixture(scope="session")
def straight(tmp_path_factory):
    """A finished tiny run of the quickstart; tests that change it work on a copy."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    done = train(folder)
    assert done.returncode == 0, done.stderr
    return folder
