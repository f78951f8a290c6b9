"""Optimizer, learning-rate schedules and the compiled training step."""
