"""Prepares MindSpore as a run does, before any test module imports it: threads of its own that idle quietly."""

from llmstack.runtime import device

device.setup("cpu")
