"""Recipes: composed by Hydra, decoded strictly into frozen models, checked as a whole."""
