"""Prepares MindSpore as a run does, before any test module imports it: threads of its own that idle quietly.

Prepared data goes into a folder of the tests' own.
"""

import atexit
import os
import shutil
import tempfile

from llmstack.runtime import device

device.setup("cpu")

_DATA_CACHE = tempfile.mkdtemp(prefix="llmstack-tests-")
os.environ["LLMSTACK_DATA_CACHE"] = _DATA_CACHE
atexit.register(shutil.rmtree, _DATA_CACHE, ignore_errors=True)
