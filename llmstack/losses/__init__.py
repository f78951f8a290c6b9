"""Masked losses: every Cell returns sums and a count, and whoever owns the whole batch divides once."""
