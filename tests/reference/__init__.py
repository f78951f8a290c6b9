"""Oracles: every formula once more, in numpy float64, written from the paper and never importing llmstack."""
