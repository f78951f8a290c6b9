"""Whether the run is to stop, for code in the middle of a step that waits for something."""

from __future__ import annotations

import threading

REQUESTED = threading.Event()
"""Set while a signal has asked the run to stop and it has not stopped yet. Whoever waits, waits for this too."""
