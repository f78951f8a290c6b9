"""Proximal policy optimization from a reward, held near a reference."""
