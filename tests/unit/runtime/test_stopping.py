from __future__ import annotations

import os
import signal

from llmstack.engine.stop import StopRequest
from llmstack.runtime.stopping import REQUESTED


def test_whoever_waits_hears_of_a_signal():
    with StopRequest() as stop:
        assert not REQUESTED.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert REQUESTED.wait(5) and stop.signum == signal.SIGTERM
    assert not REQUESTED.is_set()
