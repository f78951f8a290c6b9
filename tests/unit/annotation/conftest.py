from __future__ import annotations

import pytest

from tests.helpers.annotation import classing
from tests.helpers.chat_server import ChatServer


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server():
    with ChatServer(classing) as running:
        yield running
